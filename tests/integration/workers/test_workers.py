"""Several workers share the slots of a fleet: they die, join, leave and oversleep under load."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.bites import abort_evidence, kill_in_transaction, open_transactions
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import ServiceProcess
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.traffic import Traffic, traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, slots_of
from tests.integration.mirror.stored import stored
from tests.integration.workers.timeline import Timeline, timelines
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

RATE: Final = int(os.environ.get("MIRRORFLEET_WORKERS_RATE", "20000"))
SLOTS: Final = 8
PARTITIONS: Final = 24
TAKE_OVER_S: Final = 10.0
MOVE_S: Final = 2.0
KEPT_S: Final = 1.0
STEADY_S: Final = 3.0
"""Load before and after each fault."""
SLEEP_S: Final = 20.0


def now_ms() -> int:
    return int(time.time() * 1000)


class Workers(Fleet):
    """A fleet with one topic under load, and workers by name."""

    def __init__(self, name: str, east: Region, west: Region, directory: Path) -> None:
        rules = [{"name": "all", "topics": [f"{name}-.*"]}]
        super().__init__(name, east, west, directory, rules=rules, slots=SLOTS)
        self.topic = f"{name}-orders"
        self.stack = ExitStack()
        self.owners: dict[str, str] = {}
        self.processes: dict[str, ServiceProcess] = {}
        self.load: Traffic | None = None

    def start(self, name: str) -> ServiceProcess:
        process = self.processes[name] = self.stack.enter_context(self.mirror(name))
        process.wait_ready(60)
        self.owners[str(process.status()["owner"])] = name
        return process

    def owner(self, name: str) -> str:
        return next(who for who, worker in self.owners.items() if worker == name)

    def wait_copying(self, **wanted: int) -> None:
        """Wait until the named workers copy so many slots each."""

        def look() -> bool:
            found = {name: [s["state"] for s in slots_of(self.processes[name])] for name in wanted}
            return found == {name: ["copying"] * count for name, count in wanted.items()}

        wait_until(look, deadline_s=60, what=f"slots shared as {wanted}")

    @property
    def watched(self) -> list[At]:
        return [At(f"east.{self.topic}", number) for number in range(PARTITIONS)]

    def stop_load(self) -> None:
        """All that was made is at the source then, and the workers can copy it."""
        assert self.load is not None
        self.load.stop()

    def lines(self) -> list[Timeline]:
        return timelines(self.west, self.name)

    def tell(self, lines: list[Timeline], since_ms: int) -> None:
        """Print each taking since a moment."""
        for each in (one for line in lines for one in line.takings if one.time_ms >= since_ms):
            print(f"to {self.owners.get(each.owner, each.owner)}: {each}")


@contextmanager
def under_load(name: str, east: Region, west: Region, directory: Path) -> Iterator[Workers]:
    fleet = Workers(name, east, west, directory)
    with (
        fleet.stack,
        fleet.sync(),
        traffic(address(east), [f"{fleet.topic}:{PARTITIONS}"], rate=RATE) as load,
    ):
        fleet.load = load
        yield fleet


def stalls(lines: list[Timeline], owner: str, begin_ms: int, end_ms: int) -> list[float]:
    """The longest stall of each slot that `owner` had all the time."""
    return [
        line.stall_s(owner, begin_ms, end_ms)
        for line in lines
        if line.owner_at(begin_ms) == line.owner_at(end_ms) == owner
    ]


def within(what: str, found: list[float], count: int, limit_s: float) -> bool:
    """Whether there are so many and none is longer; prints the longest."""
    print(f"longest {what}: {max(found, default=0.0):.2f} s of {len(found)}")
    return len(found) == count and max(found) < limit_s


@pytest.mark.timeout(300)
def test_slots_move_while_workers_join_leave_and_die_and_nothing_is_lost_or_repeated(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("moving", east, west, tmp_path) as fleet:
        first = fleet.start("a")
        fleet.wait_copying(a=8)
        hold_sync(STEADY_S, reason="load on one worker")
        joined_ms = now_ms()
        second = fleet.start("b")
        fleet.wait_copying(a=4, b=4)
        hold_sync(STEADY_S, reason="load on two workers")
        left_ms = now_ms()
        second.terminate()
        fleet.wait_copying(a=8)
        fleet.start("c")
        fleet.wait_copying(a=4, c=4)
        hold_sync(STEADY_S, reason="load before the kill")
        opened = kill_in_transaction(first, access(west), fleet.watched, deadline_s=60)
        killed_ms = now_ms()
        fleet.wait_copying(c=8)
        hold_sync(STEADY_S, reason="load after the kill")
        ended_ms = now_ms()
        lines = fleet.lines()
        fleet.tell(lines, joined_ms)
        fleet.stop_load()
        evidence = abort_evidence("kill -9", opened, data_directories(west))
        report = fleet.judged([fleet.topic])

    takings = [one for line in lines for one in line.takings if one.time_ms >= joined_ms]
    moves = [one for one in takings if one.time_ms < killed_ms]
    deaths = [one for one in takings if one.time_ms >= killed_ms]
    kept = stalls(lines, fleet.owner("a"), joined_ms, left_ms)
    kept += stalls(lines, fleet.owner("c"), killed_ms, ended_ms)
    assert (report.verdict, evidence.bit, second.exit_code) == (Verdict.PASS, True, 0), evidence
    quick = (
        within("planned move", [one.stall_s for one in moves], 12, MOVE_S),
        within("take-over", [one.stall_s for one in deaths], 4, TAKE_OVER_S),
        within("stall of a kept slot", kept, 8, KEPT_S),
    )
    assert quick == (True, True, True)


def freeze_in_transaction(worker: ServiceProcess, fleet: Workers) -> None:
    """SIGSTOP at a moment when the target shows an open transaction that does not end."""

    def frozen() -> bool:
        worker.freeze()
        hold_sync(0.5, reason="a commit may be on its way from the frozen worker")
        if open_transactions(access(fleet.west), fleet.watched):
            return True
        worker.thaw()
        return False

    wait_until(frozen, deadline_s=30, what="an open transaction of a frozen worker")


def epochs(region: Region, topic: str, partition: int) -> dict[int, list[int]]:
    """Epochs of each producer in the order of the log."""
    found: dict[int, list[int]] = {}
    for batch in stored(region, topic, partition):
        found.setdefault(batch.producer_id, []).append(batch.producer_epoch)
    return found


@pytest.mark.timeout(300)
def test_a_worker_that_overslept_writes_nothing_and_gets_slots_only_from_hand_to_hand(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("asleep", east, west, tmp_path) as fleet:
        sleeper = fleet.start("sleeper")
        fleet.start("heir")
        fleet.wait_copying(sleeper=4, heir=4)
        freeze_in_transaction(sleeper, fleet)
        fleet.wait_copying(heir=8)
        hold_sync(SLEEP_S, reason="the sleeper sleeps on, the heir copies")
        woken_ms = now_ms()
        sleeper.thaw()
        fleet.wait_copying(sleeper=4, heir=4)
        hold_sync(STEADY_S, reason="a zombie would take its slots back")
        fleet.wait_copying(sleeper=4, heir=4)
        lines = fleet.lines()
        fleet.tell(lines, woken_ms)
        fleet.stop_load()
        report = fleet.judged([fleet.topic])

    taken = [one for line in lines for one in line.takings if one.time_ms >= woken_ms]
    assert report.verdict is Verdict.PASS
    assert [fleet.owners[one.owner] for one in taken] == ["sleeper"] * 4
    assert all(one.released_ms is not None for one in taken)
    assert max(one.stall_s for one in taken) < MOVE_S
    for number in range(PARTITIONS):
        for found in epochs(west, f"east.{fleet.topic}", number).values():
            assert found == sorted(found)
