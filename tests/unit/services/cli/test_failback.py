"""`failback`: shown, asked, set, reported; the exit code says whether every group is at home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.offsets.failback import places_at_home
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.operating import going_home, moving
from mirrorfleet.operating.failback import Return
from services.cli.__main__ import main
from tests.unit.offsets.test_homes import COPY, copies, flow
from tests.unit.services.cli.making import opened_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import ClusterAlias

PLACES = tuple(places_at_home("g1", {COPY: GroupOffset(7)}, {}, copies(), flow()))
ACTIVE = "it has members on east: stop them, and say it again"

Captured = pytest.CaptureFixture[str]


class Asked:
    """What was found, what was made of it, and what somebody at a terminal answers."""

    def __init__(self) -> None:
        self.found = [Return("g1", PLACES)]
        self.made: list[tuple[str, list[Return]]] = []
        self.only: tuple[str, ...] = ()
        self.agrees = True


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    async def find_returns(
        source: ClusterAlias, target: ClusterAlias, *more: object
    ) -> list[Return]:
        assert (source, target) == ("east", "west")
        found.only = tuple(more[-1]) if isinstance(more[-1], list | tuple) else ()
        return found.found

    async def make_returns(
        source: ClusterAlias, _: ClusterAlias, agreed: Iterable[Return]
    ) -> list[Return]:
        found.made.append((source, list(agreed)))
        return list(agreed)

    opened_by(moving, str, tmp_path, monkeypatch)
    monkeypatch.setattr(going_home, "find_returns", find_returns)
    monkeypatch.setattr(going_home, "make_returns", make_returns)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _: found.agrees)
    return found


def test_what_is_to_be_set_is_shown_and_then_reported(asked: Asked, capsys: Captured) -> None:
    assert main(["failback", "g1", "--target", "west"]) == 0

    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["OUTCOME", "to", "OUTCOME", "set"]
    assert asked.only == ("g1",)
    assert asked.made == [("east", asked.found)]


def test_nothing_is_set_where_nobody_agrees(asked: Asked, capsys: Captured) -> None:
    asked.agrees = False

    assert main(["failback", "--target", "west"]) == 1
    assert asked.made == []
    assert capsys.readouterr().err == "nothing was changed on east\n"


def test_a_group_that_stays_is_an_error_and_nobody_is_asked(asked: Asked, capsys: Captured) -> None:
    asked.agrees, asked.found = False, [Return("g1", PLACES, ACTIVE)]

    assert main(["failback", "--target", "west"]) == 1
    shown = capsys.readouterr()
    assert "NOT SET" in shown.out
    assert shown.err == f"not set: g1: {ACTIVE}\n"


def test_that_there_is_nothing_to_set_is_said(asked: Asked, capsys: Captured) -> None:
    asked.found = []

    assert main(["failback", "--target", "west"]) == 0
    said = capsys.readouterr().out
    assert said == "no group has read on west what it has not read on east\n"


def test_for_json_consent_comes_first(asked: Asked, capsys: Captured) -> None:
    assert main(["failback", "--target", "west", "-o", "json"]) == 1
    assert "Say it: mirrorfleet failback --yes -o json." in capsys.readouterr().err
    assert asked.made == []

    assert main(["failback", "--target", "west", "-o", "json", "--yes"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["outcome"], row["topic"], row["goes_on"]) == ("set", "orders", 7)
