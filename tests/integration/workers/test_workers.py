"""Several workers share the slots of a fleet: they die, join, leave and oversleep under load.

`MIRRORFLEET_FAULT_SECONDS` is how long a fault is held: `make faults` gives 60.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx
import pytest

from tests.faultkit import blocking
from tests.faultkit.bites import (
    abort_evidence,
    freeze_in_transaction,
    kill_in_transaction,
)
from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.regions import access, data_directories
from tests.integration.workers.fleet import (
    FAIRLY,
    MOVE_S,
    SECONDS,
    TAKE_OVER_S,
    epochs_grow,
    under_load,
)
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.bites import OpenAt
    from tests.faultkit.process import ServiceProcess

SLEEP_S: Final = max(20.0, SECONDS)
"""Longer than a session of the group and than the time-out of a transaction."""
BLOCKED_S: Final = 30.0
PAUSE_S: Final = 15.0 if IS_LONG else 4.0
"""Between two kills."""
ROUNDS: Final = 3 if IS_LONG else 1
WARM_S: Final = 45.0
"""Java interprets at first: what is promised is promised of brokers that run already."""
THREE: Final = ("a", "b", "c")
FIVE: Final = (*THREE, "d", "e")


@pytest.mark.timeout(300)
def test_slots_move_while_workers_join_leave_and_die_and_nothing_is_lost_or_repeated(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("moving", east, west, tmp_path) as fleet:
        first = fleet.start("a")
        fleet.wait_copying(a=8)
        fleet.wait_current("a")
        with fleet.fault("join", moved_s=MOVE_S, moves=FAIRLY):
            second = fleet.start("b")
            fleet.wait_shared("a", "b")
        with fleet.fault("SIGTERM", moved_s=MOVE_S, moves=FAIRLY):
            second.terminate()
            fleet.wait_copying(a=8)
        fleet.start("c")
        fleet.wait_shared("a", "c")
        fleet.wait_current("a", "c")
        with fleet.fault("kill -9", moved_s=TAKE_OVER_S, moves=FAIRLY):
            opened = kill_in_transaction(first, access(west), fleet.copied_by("a"), deadline_s=60)
            fleet.wait_copying(c=8)
        fleet.stop_load()
        evidence = abort_evidence("kill -9", opened, data_directories(west))
        report = fleet.judged_under_load()

    assert (report.verdict, evidence.bit, second.exit_code) == (Verdict.PASS, True, 0), evidence
    assert fleet.told() == []


def is_blocked(worker: ServiceProcess) -> bool:
    """Whether nobody answers who has answered before."""
    try:
        return not worker.get("/healthz").is_success
    except httpx.ReadTimeout:
        return True


@pytest.mark.timeout(700)
def test_a_worker_that_slept_or_hung_writes_nothing_after_and_is_given_slots_from_hand_to_hand(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("asleep", east, west, tmp_path) as fleet:
        sleeper = fleet.start("sleeper", through=blocking.held_for(BLOCKED_S))
        fleet.start("heir")
        fleet.wait_shared("sleeper", "heir")
        fleet.wait_current("sleeper", "heir")
        with fleet.fault("SIGSTOP", moved_s=TAKE_OVER_S, moves=FAIRLY):
            copies = fleet.copied_by("sleeper")
            opened = freeze_in_transaction(sleeper, access(west), copies, deadline_s=30)
            fleet.wait_copying(heir=8)
        hold_sync(SLEEP_S, reason="the sleeper sleeps on, the heir copies")
        with fleet.fault("SIGCONT", moved_s=MOVE_S, moves=FAIRLY) as woken:
            sleeper.thaw()
            fleet.wait_shared("sleeper", "heir")
        with fleet.fault("blocked loop", moved_s=TAKE_OVER_S, moves=FAIRLY):
            sleeper.block_loop()
            blocked = is_blocked(sleeper)
            fleet.wait_copying(heir=8)
        hold_sync(BLOCKED_S - 15, reason="the loop is blocked, the heir copies")
        with fleet.fault("free loop", moved_s=MOVE_S, moves=FAIRLY) as freed:
            fleet.wait_shared("sleeper", "heir")
        fleet.stop_load()
        evidence = abort_evidence("SIGSTOP", opened, data_directories(west))
        report = fleet.judged_under_load()

    assert (report.verdict, evidence.bit, blocked) == (Verdict.PASS, True, True), evidence
    given = [taking for begin_ms in (woken, freed) for taking in fleet.takings(begin_ms)]
    assert {fleet.owners[one.owner] for one in given} == {"sleeper"}
    assert [one.released_ms for one in given if one.released_ms is None] == []
    assert epochs_grow(fleet)
    assert fleet.told() == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_three_workers_killed_in_turn_again_and_again_lose_and_repeat_nothing(
    east: Region, west: Region, tmp_path: Path
) -> None:
    opened: list[list[OpenAt]] = []

    def bounce(name: str) -> None:
        worker = fleet.processes[name]
        opened.append(
            kill_in_transaction(worker, access(west), fleet.copied_by(name), deadline_s=60)
        )
        fleet.start(name)

    with under_load("bounced", east, west, tmp_path) as fleet:
        for name in THREE:
            fleet.start(name)
        fleet.wait_all_copied(*THREE)
        fleet.wait_current(*THREE)
        if IS_LONG:
            hold_sync(WARM_S, reason="brokers grow warm")
        for name in THREE * ROUNDS:
            with fleet.fault(f"kill -9 {name}", moved_s=TAKE_OVER_S):
                bounce(name)
                fleet.wait_all_copied(*THREE)
            hold_sync(PAUSE_S, reason="load between two kills")
        with fleet.fault("kill -9 back to back", moved_s=TAKE_OVER_S):
            for name in THREE:
                bounce(name)
            fleet.wait_all_copied(*THREE)
        fleet.stop_load()
        data = data_directories(west)
        evidence = [abort_evidence("kill -9", each, data) for each in opened]
        report = fleet.judged_under_load()

    assert (report.verdict, [e for e in evidence if not e.bit]) == (Verdict.PASS, [])
    assert fleet.told() == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_workers_restarted_in_turn_and_scaled_from_one_to_five_to_none_to_three_copy_on(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("scaled", east, west, tmp_path) as fleet:
        for name in THREE:
            fleet.start(name)
        fleet.wait_all_copied(*THREE)
        fleet.wait_current(*THREE)
        for name in THREE:
            with fleet.fault(f"SIGTERM {name}", moved_s=MOVE_S):
                fleet.stop(name)
                fleet.wait_all_copied(*(set(THREE) - {name}))
            with fleet.fault(f"start {name}", moved_s=MOVE_S):
                fleet.start(name)
                fleet.wait_all_copied(*THREE)
        with fleet.fault("3 -> 1", moved_s=MOVE_S):
            fleet.stop("b", "c")
            fleet.wait_all_copied("a")
        with fleet.fault("1 -> 5", moved_s=MOVE_S):
            for name in FIVE[1:]:
                fleet.launch(name)
            fleet.wait_ready(*FIVE[1:])
            fleet.wait_all_copied(*FIVE)
        fleet.stop(*FIVE)
        for name in THREE:
            fleet.launch(name)
        fleet.wait_ready(*THREE)
        fleet.wait_all_copied(*THREE)
        fleet.stop_load()
        report = fleet.judged_under_load()

    assert (report.verdict, report.seen_twice) == (Verdict.PASS, 0)
    assert fleet.told() == []
