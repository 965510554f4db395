"""A topic that an operator pauses stands and goes on where it stopped; one throttled is slow."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from services.cli.__main__ import main
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, wait_states, wait_values
from tests.integration.mirror.making import create, delete, grow, numbered, put, values
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

HELD, FREE, SLOW = "held", "held-free", "slow"
LEAST, BATCH = 65_536, 60_000


class Operator:
    """Somebody at a terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def says(self, *words: str) -> list[dict[str, object]]:
        code = main([*words, "--target", "west", "-o", "json"])
        assert code == 0 or words == ("status",)  # a report that is late is waited for
        found: list[dict[str, object]] = json.loads(self._capsys.readouterr().out)
        return found

    def wait_paused(self, *numbers: int) -> None:
        """Wait until the fleet tells of these partitions, and no other, that they stand."""
        wait_until(
            lambda: self._paused() == {*numbers},
            deadline_s=FLOWING_S,
            what=f"partitions {numbers} to stand",
        )

    def _paused(self) -> set[object]:
        rows = self.says("status")
        return {row["partition"] for row in rows if row["state"] == "paused"}


@pytest.fixture
def operator(capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(capsys)


def test_a_paused_topic_stands_with_all_that_it_gets_and_goes_on_where_it_stopped(
    east: Region,
    west: Region,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Operator,
) -> None:
    fleet = Fleet("held", east, west, tmp_path, rules=[{"name": "all", "topics": [f"{HELD}.*"]}])
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(fleet.estate))
    for topic in (HELD, FREE):
        create(east, topic, 1)
        put(east, topic, numbered(0, 10))
    before, after = ([r.value for r in numbered(0, end)] for end in (10, 20))
    with fleet.sync(), fleet.mirror() as mirror:
        wait_states(mirror, "copying", 2)
        wait_values(west, f"east.{HELD}", 0, before)

        assert [row["before"] for row in operator.says("pause", HELD)] == ["active"]
        operator.wait_paused(0)
        grow(east, HELD, 2)
        operator.wait_paused(0, 1)
        for number in range(2):
            put(east, HELD, numbered(10, 20, partition=number))
        put(east, FREE, numbered(10, 20))
        wait_values(west, f"east.{FREE}", 0, after)
        assert values(west, f"east.{HELD}", 0) == before

        assert [row["partition"] for row in operator.says("resume", f"{HELD}-0")] == [0]
        wait_values(west, f"east.{HELD}", 0, after)
        operator.wait_paused(1)
        assert [row["now"] for row in operator.says("resume", HELD)] == ["active"] * 2
        report = fleet.judged([HELD, FREE])
    for topic in (HELD, FREE):
        delete(east, topic)
        delete(west, f"east.{topic}")

    assert report.verdict is Verdict.PASS, render(report)


def test_a_topic_is_read_as_slowly_as_somebody_asks_with_all_that_it_gets_until_he_takes_it_off(
    east: Region,
    west: Region,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Operator,
) -> None:
    fleet = Fleet("slow", east, west, tmp_path, rules=[{"name": "all", "topics": [SLOW]}])
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(fleet.estate))
    create(east, SLOW, 1)
    with fleet.sync(), fleet.mirror() as mirror:
        wait_states(mirror, "copying", 1)

        assert main(["throttle", SLOW, "64", "--target", "west"]) == 1, "less than a rule may say"
        asked = operator.says("throttle", SLOW, "64KiB/s")
        assert [(row["before"], row["now"]) for row in asked] == [(None, LEAST)]
        grow(east, SLOW, 2)
        wait_states(mirror, "copying", 2)
        batches = [numbered(at, at + 1, size=BATCH, partition=1) for at in range(6)]
        began = time.monotonic()
        for batch in batches:
            put(east, SLOW, batch)
        wait_values(west, f"east.{SLOW}", 1, [r.value for batch in batches for r in batch])
        took_s = time.monotonic() - began

        taken_off = operator.says("throttle", SLOW, "off")
        assert [(row["before"], row["now"]) for row in taken_off] == [(LEAST, None)] * 2
        report = fleet.judged([SLOW])
    delete(east, SLOW)
    delete(west, f"east.{SLOW}")

    assert took_s >= (len(batches) - 1) * BATCH / LEAST
    assert report.verdict is Verdict.PASS, render(report)
