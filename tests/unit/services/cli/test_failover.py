"""`failover`: what it prints, what it says of time and rest, and its exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mirrorfleet.operating import moving
from mirrorfleet.operating.failover import Asked, Outcome, Takeover
from mirrorfleet.operating.options import Drain
from services.cli.__main__ import main
from tests.unit.services.cli.making import opened_by

READY = Takeover(Outcome.READY, "g1", 3, 0, ("east.carts", "east.orders"), "it can go on")
WAITS = replace(READY, outcome=Outcome.WAITS, group="g2", not_copied=7, words="it is behind")
Captured = pytest.CaptureFixture[str]


@dataclass
class World:
    found: list[Takeover] = field(default_factory=lambda: [READY])
    asked: list[Asked] = field(default_factory=list)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    async def find_takeovers(_: object, target: str, asked: Asked, __: object) -> list[Takeover]:
        assert target == "west"
        made.asked.append(asked)
        return made.found

    opened_by(moving, str, tmp_path, monkeypatch)
    monkeypatch.setattr(moving, "find_takeovers", find_takeovers)
    return made


def test_a_group_that_is_ready_is_shown_with_what_it_goes_on_with(
    world: World, capsys: Captured
) -> None:
    assert main(["failover", "g1", "--target", "west", "--drain", "all"]) == 0

    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split(maxsplit=4) == [
        "ready",
        "g1",
        "3",
        "0",
        "east.carts, east.orders  it can go on",
    ]
    assert shown.err.startswith("1 of 1 group can go on at west, after 0.")
    assert shown.err.endswith(" s; all of their topics is copied\n")
    assert (world.asked[0].only, world.asked[0].drain) == (("g1",), Drain.ALL)


@pytest.mark.parametrize(
    ("left", "said"),
    [(7, "up to 7 offsets of their topics not copied"), (None, "of some nobody knows how much")],
)
def test_one_that_is_not_is_exit_2(
    world: World, capsys: Captured, left: int | None, said: str
) -> None:
    world.found = [READY, replace(WAITS, not_copied=left)]

    assert main(["failover", "--target", "west", "--within", "0", "-o", "json"]) == 2

    shown = capsys.readouterr()
    assert [(row["group"], row["outcome"], row["words"]) for row in json.loads(shown.out)] == [
        ("g1", "ready", "it can go on"),
        ("g2", "not ready", "it is behind"),
    ]
    assert "1 of 2 groups can go on at west" in shown.err
    assert said in shown.err
    assert (world.asked[0].only, world.asked[0].drain) == ((), Drain.READ)


def test_no_group_at_all_is_no_success(world: World, capsys: Captured) -> None:
    world.found = []

    assert main(["failover", "--target", "west", "--within", "0"]) == 2
    assert capsys.readouterr().out == "no group has read anything that is copied\n"
