from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.ownership import PATIENCE_S
from mirrorfleet.copying.schedule import MarkerShare
from mirrorfleet.copying.sharing import Share
from mirrorfleet.core.ids import FleetName, SlotNumber, TopicPartition
from mirrorfleet.records import positions
from mirrorfleet.records.catalog import Priority
from mirrorfleet.records.positions import Released
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots import owning as module
from mirrorfleet.slots.owning import Owning
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mirrorfleet.kafka.membership import Membership
    from mirrorfleet.slots.worker import SourceSide, Worker

SLOT = SlotNumber(3)
NOTHING: frozenset[SlotNumber] = frozenset()
DEADLINE_S = 5.0


class Runner:
    """A slot that copies until it is stopped or fenced."""

    def __init__(self, worker: Worker, side: SourceSide, number: SlotNumber) -> None:
        del side
        self.number, self.is_lost = number, False
        self.slot = SimpleNamespace(forget_all=lambda: None)
        self.unstarted: dict[object, object] = {}
        self.left_in: int | None = None
        self._markers = worker.markers
        self._ended = asyncio.Event()

    def assign(self, entries: object) -> None:
        del entries

    async def run(self, stop: Stop) -> None:
        self._markers.committed(self.number, 998)
        stop.on_set(self._ended.set)
        await self._ended.wait()

    def fence(self) -> None:
        self.is_lost = True
        self._ended.set()


class Group:
    """The group as one of its members sees it."""

    trouble = ""
    knows_we_leave = False

    def __init__(self) -> None:
        self.share, self.generation = Share(frozenset({SLOT}), NOTHING), 1
        self._woken = asyncio.Event()

    def give(self, *slots: SlotNumber) -> None:
        self.share, self.generation = Share(frozenset(slots), NOTHING), self.generation + 1
        self.wake()

    def leave(self) -> None:
        """Heard with a later generation."""

    def wake(self) -> None:
        self._woken.set()

    @property
    def is_woken(self) -> bool:
        return self._woken.is_set()

    async def confirm(self) -> bool:
        return False

    async def changed(self, timeout_s: float) -> None:
        del timeout_s
        await self._woken.wait()
        self._woken.clear()


async def reached(found: Callable[[], bool]) -> None:
    await until(found, deadline_s=DEADLINE_S, what="a step of the worker")


class Member:
    """A worker that was given one slot, of which there is nothing to copy, and holds it."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.group, self.markers = Group(), MarkerShare()
        needs = SimpleNamespace(need=lambda _: None, need_partitions=lambda _: None)
        worker = SimpleNamespace(
            fleet=FleetName("west"),
            clock=SystemClock(),
            target=None,
            targets=needs,
            markers=self.markers,
        )
        self.owning = Owning(
            cast("Worker", worker),
            cast("Membership", self.group),
            tasks=tasks,
            stop=Stop(SystemClock(), 1.0),
        )
        self._side = cast("SourceSide", SimpleNamespace(leaders=needs))
        self.owning.assign(SLOT, self._side, {})

    def assign(self, number: int, priority: Priority) -> None:
        """A slot with one partition."""
        one = entry(number, slot=SlotNumber(number), priority=priority)
        self.owning.assign(SlotNumber(number), self._side, {one.identity: one})

    @property
    def runner(self) -> Runner:
        (found,) = self.owning.ours()
        return cast("Runner", found)


@asynccontextmanager
async def copying(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Member]:
    monkeypatch.setattr(module, "SlotRunner", Runner)
    async with asyncio.TaskGroup() as tasks:
        member = Member(tasks)
        keeping = tasks.create_task(member.owning.keep())
        await reached(lambda: member.markers.per_round > 0)
        yield member
        keeping.cancel()


async def test_of_a_slot_that_was_fenced_its_owner_tells_and_not_we(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with copying(monkeypatch) as member:
        told = member.owning.told_of()
        member.runner.fence()
        await reached(lambda: not member.owning.told_of())
        still_shown = member.owning.ours()
        member.group.give()
        await reached(lambda: not member.owning.ours())

    assert len(told) == 1
    assert still_shown == told  # until the group speaks, `/status` shows that it is lost


async def test_markers_of_a_slot_that_left_do_not_slow_the_commits_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with copying(monkeypatch) as member:
        member.markers.committed(4, 8)
        both = member.markers.per_round
        member.group.give()
        await reached(lambda: member.markers.per_round < both)

    assert (both, member.markers.per_round) == (1_010, 10)


async def test_why_a_worker_is_no_member_is_told_once_and_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [vars(each)["error"] for each in caplog.records if "no member" in each.message]

    async with copying(monkeypatch) as member:
        for trouble in ("no coordinator", "no coordinator", "", "no coordinator", "not allowed"):
            member.group.trouble = trouble
            member.group.wake()
            await reached(lambda: not member.group.is_woken)
        member.group.give()
        await reached(lambda: not member.owning.ours())

    assert told() == ["no coordinator", "no coordinator", "not allowed"]


@pytest.mark.parametrize("held", [[], [SLOT]], ids=["on start", "on take-over"])
async def test_slots_are_begun_in_the_order_of_their_urgency(
    monkeypatch: pytest.MonkeyPatch, held: list[SlotNumber]
) -> None:
    begun: list[SlotNumber] = []

    class Noting(Runner):
        async def run(self, stop: Stop) -> None:
            begun.append(self.number)
            await super().run(stop)

    urgencies = {1: Priority.LOW, 2: Priority.NORMAL, 4: Priority.HIGH}
    monkeypatch.setattr(module, "SlotRunner", Noting)
    async with asyncio.TaskGroup() as tasks:
        member = Member(tasks)
        for number, priority in urgencies.items():
            member.assign(number, priority)
        member.group.give(*held)
        keeping = tasks.create_task(member.owning.keep())
        await reached(lambda: begun == held and not member.group.is_woken)
        member.group.give(SLOT, *map(SlotNumber, urgencies))
        await reached(lambda: len(begun) == len(urgencies) + 1)
        member.group.give()
        await reached(lambda: not member.owning.ours())
        keeping.cancel()

    assert begun == ([SLOT, 4, 2, 1] if held else [4, 2, 1, SLOT])


async def test_a_rebalance_that_was_under_way_does_not_answer_one_that_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with copying(monkeypatch) as member, asyncio.TaskGroup() as group:
        leaving = group.create_task(member.owning.handed_over())
        await asyncio.sleep(0)
        member.group.give(SLOT)  # all ours still, by claims from before
        await reached(lambda: not member.group.is_woken)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not leaving.done()

        member.group.knows_we_leave = True
        member.group.give(SLOT)  # nobody else is there
        async with asyncio.timeout(1):
            await leaving
        member.runner.fence()


async def test_a_handed_slot_whose_positions_have_no_leader_hides_no_release_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = SlotNumber(4)
    released: list[SlotNumber] = []
    begun: set[int] = set()
    generation = 5

    async def log_bounds(_: object, at: TopicPartition) -> tuple[int, int]:
        if at.partition == SLOT:
            await asyncio.Event().wait()  # it is asked for again and again
        begun.add(at.partition)
        return 0, 9

    async def poll(**_: float) -> list[object]:
        key, value = positions.encode(Released(owner="b", generation=generation, time_ms=1))
        await asyncio.sleep(0)
        return [SimpleNamespace(key=key, value=value, partition=other)]

    tail = SimpleNamespace(start=lambda *_: None, poll=poll, close=lambda: None, next_offsets=begun)
    monkeypatch.setattr(module, "log_bounds", log_bounds)
    monkeypatch.setattr(module, "PartitionTail", lambda *_: tail)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        member = Member(group)
        monkeypatch.setattr(member.owning._slots, "released", released.append)
        watch = group.create_task(member.owning._watch({SLOT, other}, generation))
        await until(lambda: bool(released), deadline_s=PATIENCE_S, what="the release")
        watch.cancel()

    assert set(released) == {other}
