"""Several workers share the slots of a fleet: they die, join, leave and oversleep under load.

`MIRRORFLEET_FAULT_SECONDS` is how long a fault is held: `make faults` gives 60.
"""

from __future__ import annotations

import time
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
    ALL,
    FAIRLY,
    MOVE_S,
    SECONDS,
    SLOTS,
    TAKE_OVER_S,
    THIRD,
    epochs_grow,
    under_load,
)
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.bites import OpenAt
    from tests.faultkit.process import ServiceProcess
    from tests.integration.workers.fleet import Workers

SLEEP_S: Final = max(20.0, SECONDS)
"""Longer than a session of the group and than the time-out of a transaction."""
BLOCKED_S: Final = 30.0
PAUSE_S: Final = 15.0 if IS_LONG else 4.0
"""Between two kills."""
ROUNDS: Final = 3 if IS_LONG else 1
WARM_S: Final = 45.0
"""Java interprets at first: what is promised is promised of brokers that run already."""
HEIRS: Final = ("heir", "other")
THREE: Final = ("a", "b", "c")
FIVE: Final = (*THREE, "d", "e")


@pytest.mark.timeout(1000)
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


def freeze(fleet: Workers, name: str) -> list[OpenAt]:
    """SIGSTOP a worker while it has transactions open: where."""
    worker = fleet.processes[name]
    return freeze_in_transaction(worker, access(fleet.west), fleet.copied_by(name), deadline_s=30)


def block(fleet: Workers, name: str) -> list[OpenAt]:
    """Block the loop of a worker while it has transactions open: where.

    A block cannot be taken back from one that has none, so it is frozen first. The signal waits
    meanwhile, and is the first thing that it hears when it goes on. A commit that was written to
    its buffers already leaves before that, now and then: so this is told, and not demanded.
    """
    opened, worker = freeze(fleet, name), fleet.processes[name]
    worker.block_loop()
    worker.thaw()
    return opened


@pytest.mark.timeout(1000)
def test_a_worker_that_slept_or_hung_writes_nothing_after_and_is_given_slots_from_hand_to_hand(
    east: Region, west: Region, tmp_path: Path
) -> None:
    three = ("sleeper", *HEIRS)
    with under_load("asleep", east, west, tmp_path) as fleet:
        sleeper = fleet.start("sleeper", through=blocking.held_for(BLOCKED_S))
        for name in HEIRS:
            fleet.start(name)
        fleet.wait_all_copied(*three, least=THIRD.start)
        fleet.wait_current(*three)
        with fleet.fault("SIGSTOP", moved_s=TAKE_OVER_S, moves=THIRD):
            opened = {"SIGSTOP": freeze(fleet, "sleeper")}
            fleet.wait_all_copied(*HEIRS)
        hold_sync(SLEEP_S, reason="the sleeper sleeps on, the heirs copy")
        with fleet.fault("SIGCONT", moved_s=MOVE_S, moves=THIRD) as woken:
            sleeper.thaw()
            fleet.wait_all_copied(*three, least=THIRD.start)
        with fleet.fault("blocked loop", moved_s=TAKE_OVER_S, moves=THIRD):
            opened["blocked loop"] = block(fleet, "sleeper")
            free_at = time.monotonic() + BLOCKED_S
            blocked = is_blocked(sleeper)
            fleet.wait_all_copied(*HEIRS)
        left_s = max(free_at - 3 - time.monotonic(), 0.0)  # the fault begins before it wakes
        hold_sync(left_s, reason="the loop is blocked, the heirs copy")
        with fleet.fault("free loop", moved_s=MOVE_S, moves=THIRD) as freed:
            fleet.wait_all_copied(*three, least=THIRD.start)
        fleet.stop_load()
        data = data_directories(west)
        evidence = [abort_evidence(what, at, data) for what, at in opened.items()]
        report = fleet.judged_under_load()

    print(*evidence, sep="\n")
    assert (report.verdict, evidence[0].bit, blocked) == (Verdict.PASS, True, True)
    given = [taking for begin_ms in (woken, freed) for taking in fleet.takings(begin_ms)]
    assert {fleet.owners[one.owner] for one in given} == {"sleeper"}
    assert [one.released_ms for one in given if one.released_ms is None] == []
    assert epochs_grow(fleet)
    assert fleet.told() == []


def kill_back_to_back(fleet: Workers) -> list[OpenAt]:
    """Kill each of three as soon as the one before was started again, ready or not.

    Only the first is sure to have transactions open, and it is told where: to wait for those of the
    next one is a pause in which the first would be ready again.
    """
    first, *others = THREE
    opened = kill_in_transaction(
        fleet.processes[first], access(fleet.west), fleet.copied_by(first), deadline_s=60
    )
    fleet.launch(first)
    for name in others:
        fleet.processes[name].kill()
        fleet.launch(name)
    fleet.wait_ready(*THREE)
    return opened


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
        with fleet.fault("kill -9 back to back", moved_s=TAKE_OVER_S, moves=ALL):
            opened.append(kill_back_to_back(fleet))
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
                fleet.wait_all_copied(*THREE, least=1)
        with fleet.fault("3 -> 1", moved_s=MOVE_S):
            fleet.stop("b", "c")
            fleet.wait_all_copied("a")
        with fleet.fault("1 -> 5", moved_s=MOVE_S, moves=range(4, SLOTS)):
            for name in FIVE[1:]:
                fleet.launch(name)
            fleet.wait_ready(*FIVE[1:])
            fleet.wait_all_copied(*FIVE, least=1)
        with fleet.fault("5 -> 0 -> 3", moved_s=TAKE_OVER_S, moves=ALL) as none:
            fleet.stop(*FIVE)
            stopped = time.monotonic()
            for name in THREE:
                fleet.launch(name)
            fleet.wait_ready(*THREE)
            fleet.wait_all_copied(*THREE, least=THIRD.start)
            again_s = time.monotonic() - stopped
        fleet.stop_load()
        report = fleet.judged_under_load()

    nothing_s = fleet.nothing_s(none)
    print(f"0 -> 3: all slots copied after {again_s:.1f} s, nothing copied for {nothing_s:.1f} s")
    assert (report.verdict, report.seen_twice) == (Verdict.PASS, 0)
    assert fleet.told() == []
