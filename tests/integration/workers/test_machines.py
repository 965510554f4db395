"""Workers on machines that are not as they should be: wrong clocks, no memory left."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit import skewed
from tests.faultkit.bites import abort_evidence, kill_in_transaction
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import SMALL_BYTES
from tests.faultkit.regions import access, data_directories
from tests.faultkit.waiting import NotInTimeError, wait_until
from tests.integration.mirror.making import Made, put
from tests.integration.workers.fleet import (
    FAIRLY,
    MOVE_S,
    PARTITIONS,
    SECONDS,
    TAKE_OVER_S,
    under_load,
)
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess
    from tests.integration.workers.fleet import Workers

SKEW_S: Final = 7_200.0
"""More than the hour by which brokers of 4.x let a record be ahead of their own clock."""
LARGE: Final = b"x" * 900_000
"""A few such records in one answer are more than a worker has free."""
STARVED_S: Final = 15.0
ROUNDS: Final = (2, 4, 8, 16)


def clock_ahead_s(worker: ServiceProcess) -> float:
    """How far the newest line of a worker's log is ahead of this machine's clock."""
    newest = json.loads(worker.text().splitlines()[-1])
    return float(newest["time_ms"]) / 1000 - time.time()


@pytest.mark.timeout(700)
def test_workers_whose_clocks_are_hours_apart_take_over_from_each_other(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("skewed", east, west, tmp_path) as fleet:
        ahead = fleet.start("ahead", through=skewed.by(SKEW_S))
        fleet.wait_copying(ahead=8)
        fleet.wait_current("ahead")
        with fleet.fault("a clock that is behind", moved_s=MOVE_S, moves=FAIRLY):
            fleet.start("behind", through=skewed.by(-SKEW_S))
            fleet.wait_shared("ahead", "behind")
        skew_s = clock_ahead_s(ahead)
        with fleet.fault("kill -9 of who is ahead", moved_s=TAKE_OVER_S, moves=FAIRLY):
            opened = kill_in_transaction(
                ahead, access(west), fleet.copied_by("ahead"), deadline_s=60
            )
            fleet.wait_copying(behind=8)
        fleet.stop_load()
        evidence = abort_evidence("kill -9", opened, data_directories(west))
        report = fleet.judged_under_load()

    assert skew_s > SKEW_S - 600
    assert (report.verdict, evidence.bit) == (Verdict.PASS, True), evidence
    assert fleet.told() == []


def misses_memory(starved: ServiceProcess, fleet: Workers, each: int) -> bool:
    """Let so many large records of each partition wait for a worker: whether it misses memory then.

    How much it asks for at a time follows what came before, so it may get by with few.
    """
    large = [Made(LARGE, partition=number % PARTITIONS) for number in range(each * PARTITIONS)]
    fleet.shared.add(fleet.topic)
    starved.freeze()
    put(fleet.east, fleet.topic, large)
    starved.thaw()
    with suppress(NotInTimeError):
        return wait_until(
            lambda: "no memory for an answer" in starved.text(),
            deadline_s=STARVED_S,
            what="the worker to miss memory",
        )
    return False


def gave_way(starved: ServiceProcess) -> bool:
    """Whether it has ended by itself, as who lacks memory for long does, and not by a library."""
    said = ("memory was missing for", "MemoryError")
    return starved.exit_code == 1 and any(words in starved.text() for words in said)


@pytest.mark.parametrize(
    ("name", "room"),
    [("starved", SMALL_BYTES), pytest.param("famished", 0, marks=pytest.mark.apart)],
)
@pytest.mark.timeout(700)
def test_a_worker_that_has_no_memory_left_loses_connections_and_no_records(
    east: Region,
    west: Region,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    room: int,
) -> None:
    """It has some again when answers were given up, or leaves its slots to who has."""
    # of a thread that allocated once malloc keeps 64 MB of address space, which serve all the same
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with under_load(name, east, west, tmp_path) as fleet:
        starved = fleet.start("starved")
        fleet.start("fed")
        fleet.wait_shared("starved", "fed")
        starved.limit_memory(room)
        said = any(misses_memory(starved, fleet, each) for each in ROUNDS)
        hold_sync(SECONDS, reason="load without memory")
        fleet.stop_load()
        report = fleet.judged_under_load()
        went_on = starved.exit_code is None

    assert (report.verdict, said) == (Verdict.PASS, True), starved.tail()
    assert went_on or gave_way(starved), starved.tail()
