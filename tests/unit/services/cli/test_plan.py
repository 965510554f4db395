"""`plan` and `apply` over fleets made of lists: what is printed, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.planning.pending import Kind, PlannedChange
from mirrorfleet.syncing.once import Outcome, Preview, Refused
from services.cli import plan
from services.cli.__main__ import main

ESTATE = """\
estate: demo
clusters:
  east: {bootstrap: "127.0.0.1:1"}
  west: {bootstrap: "127.0.0.1:2"}
  south: {bootstrap: "127.0.0.1:3"}
links:
  - {from: east, to: west, rules: [{name: orders, topics: ["orders"]}]}
  - {from: east, to: south, rules: [{name: orders, topics: ["orders"]}]}
"""
TARGETS = ("west", "south")
AWAY = Refused("north->west", "", "unreachable", "north does not answer")
HELD = Refused("east->west", "x", "name", "too long")

Captured = pytest.CaptureFixture[str]


def change(target: str) -> PlannedChange:
    return PlannedChange(f"east->{target}", Kind.CREATE, "east.orders", "3 partitions")


def outcome(target: str) -> Outcome:
    return Outcome(
        made=[change(target)], not_made=[], gone=[], further=[], refused=[], unreached=[]
    )


class Fleet:
    """One fleet that is looked at, and whose changes are all made."""

    def __init__(self, target: str) -> None:
        self.preview = Preview(changes=[change(target)])
        self.outcome = outcome(target)
        self.error: Exception | None = None

    async def close(self) -> None:
        pass


class Fleets:
    """All fleets of the estate, and what somebody at a terminal answers for each."""

    def __init__(self) -> None:
        self.of = {target: Fleet(target) for target in TARGETS}
        self.agrees = dict.fromkeys(TARGETS, True)

    def answer(self, question: str) -> bool:
        return next(yes for target, yes in self.agrees.items() if f"on {target}?" in question)


class Once:
    """What `apply` asks of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def open(self) -> None:
        if self._fleet.error is not None:
            raise self._fleet.error

    async def preview(self) -> Preview:
        return self._fleet.preview

    async def apply(self, agreed: object) -> Outcome:
        return self._fleet.outcome


@pytest.fixture
def fleets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleets:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))
    made = Fleets()

    def a_fleet(_: Estate, target: str) -> Fleet:
        return made.of[target]

    async def previewed(_: Estate, target: str) -> Preview:
        if (error := made.of[target].error) is not None:
            raise error
        return made.of[target].preview

    monkeypatch.setattr(plan, "a_fleet", a_fleet)
    monkeypatch.setattr(plan, "previewed", previewed)
    monkeypatch.setattr(plan, "Once", Once)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", made.answer)
    return made


def test_what_was_made_on_one_target_is_told_though_the_other_is_declined(
    fleets: Fleets, capsys: Captured
) -> None:
    fleets.agrees["south"] = False
    assert main(["apply"]) == 1
    shown = capsys.readouterr()
    assert [line.split()[:2] for line in shown.out.splitlines() if line.startswith("made")] == [
        ["made", "east->west"]
    ]
    assert "a `sync` that began with another estate" in shown.out
    assert shown.err.splitlines() == ["nothing was changed on south"]


@pytest.mark.parametrize(("away", "there"), [TARGETS, TARGETS[::-1]])
def test_one_target_is_changed_and_told_though_the_other_does_not_answer(
    fleets: Fleets, capsys: Captured, away: str, there: str
) -> None:
    fleets.of[away].error = ConnectionLostError(f"{away} does not answer.")
    assert main(["apply", "--yes", "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert [row["link"] for row in json.loads(shown.out)] == [f"east->{there}"]
    assert shown.err.splitlines() == [f"error: {away}: {away} does not answer."]


def test_a_source_that_does_not_answer_is_an_error_though_all_else_was_made(
    fleets: Fleets, capsys: Captured
) -> None:
    fleets.of["west"].preview.unreached = [AWAY]
    fleets.of["west"].outcome.unreached = [AWAY]
    assert main(["apply", "--target", "west"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "unreachable: north->west : north does not answer"
    ]


def test_changes_that_are_new_since_the_plan_are_pending(fleets: Fleets, capsys: Captured) -> None:
    fleets.of["west"].outcome.further = [change("west")]
    assert main(["apply"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "1 changes on west are new since the plan; see `mirrorfleet plan`"
    ]


def test_a_change_that_was_not_made_weighs_more_than_one_that_is_pending(
    fleets: Fleets, capsys: Captured
) -> None:
    fleets.of["west"].outcome.further = [change("west")]
    south = fleets.of["south"].outcome
    south.made, south.not_made = [], south.made
    assert main(["apply", "--yes", "-o", "json"]) == 1
    assert [(row["outcome"], row["link"]) for row in json.loads(capsys.readouterr().out)] == [
        ("made", "east->west"),
        ("NOT MADE", "east->south"),
    ]


def test_a_change_that_went_away_meanwhile_is_no_success(fleets: Fleets, capsys: Captured) -> None:
    south = fleets.of["south"].outcome
    south.made, south.gone = [], south.made
    assert main(["apply", "--yes", "-o", "json"]) == 2
    shown = capsys.readouterr()
    assert [(row["outcome"], row["link"]) for row in json.loads(shown.out)] == [
        ("made", "east->west"),
        ("not needed", "east->south"),
    ]
    assert "1 changes on south were not needed any more" in shown.err


def test_for_json_nobody_is_asked_about_changes_that_were_not_shown(
    fleets: Fleets, capsys: Captured
) -> None:
    assert main(["apply", "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "error: with -o json nobody is shown the changes, or asked."
        " Say it: mirrorfleet apply --yes -o json.\n"
    )


def test_a_plan_without_changes_is_in_step_unless_something_is_held_back(
    fleets: Fleets, capsys: Captured
) -> None:
    preview = fleets.of["west"].preview
    preview.changes = []
    assert main(["plan", "--target", "west"]) == 0
    assert capsys.readouterr().out == "in step: nothing to change\n"

    preview.refused = [HELD]
    assert main(["plan", "--target", "west"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "nothing to change, but not in step: 1 held back or out of reach\n"
    assert shown.err == "name: east->west x: too long\n"

    preview.unreached = [AWAY]
    assert main(["plan", "--target", "west"]) == 1


def test_a_target_that_does_not_answer_hides_none_of_the_others_plans(
    fleets: Fleets, capsys: Captured
) -> None:
    fleets.of["west"].error = ConnectionLostError("west does not answer.")
    assert main(["plan", "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert [row["link"] for row in json.loads(shown.out)["changes"]] == ["east->south"]
    assert shown.err.splitlines() == ["error: west: west does not answer."]

    fleets.of["south"].error = ConnectionLostError("south does not answer.")
    assert main(["plan", "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error: west: west does not answer.",
        "error: south does not answer.",
    ]
