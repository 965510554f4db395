"""What becomes of the slots when the stream that tells of them ends, and when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.lagging.board import Place
from mirrorfleet.watching.stalls import StallWatch
from mirrorfleet.watching.told import LastTold
from services.lag import service as module
from services.lag.service import STREAM, LagService
from services.lag.stream import OnSlots, ProgressStream
from tests.faultkit.waiting import until
from tests.unit.lagging.making import SLOT, entry, said, snapshot
from tests.unit.lagging.test_forecast import watched
from tests.unit.standby.test_demotion import Fleet

OTHER = SlotNumber(2)
MINUTE_MS = 60_000
SOON_S = 5.0


class Faust:
    """One run of it: what it assigns and when it ends is the test's to say."""

    def __init__(self, assign: OnSlots) -> None:
        self.assign = assign
        self.crashed = asyncio.Event()
        self.stopping = asyncio.Event()
        self.may_stop = asyncio.Event()
        self.may_stop.set()

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopping.set()
        await self.may_stop.wait()

    async def wait_until_stopped(self) -> None:
        await self.crashed.wait()


class World:
    """A `lag` that hears by `Faust`, and what is stored of each slot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = LagService(Fleet().context)
        self.context = self.service._context
        self.board = self.service._board
        self.health = self.context.health
        self.health.hold(STREAM, "not read yet")
        self.runs: list[Faust] = []
        self.taken: list[SlotNumber] = []
        self.unreadable: set[SlotNumber] = set()
        self.stalled = asyncio.Event()
        self.may_read = asyncio.Event()
        self.may_read.set()
        monkeypatch.setattr(module, "_TROUBLE_S", 0.01)
        monkeypatch.setattr(module, "last_told", self._last_told)
        monkeypatch.setattr(ProgressStream, "_app", self._app)
        monkeypatch.setattr(StallWatch, "run", self._watch)
        self.service._view.apply(entry(0))

    def _app(self, _folder: str, _on_record: object, on_slots: OnSlots) -> Faust:
        self.runs.append(Faust(on_slots))
        return self.runs[-1]

    async def _watch(self) -> None:
        await self.stalled.wait()
        self.stalled.clear()
        raise ConnectionLostError("nothing comes any more")

    async def _last_told(
        self, _cluster: object, _fleet: object, slot: SlotNumber, _many: int, now_ms: int
    ) -> LastTold:
        self.taken.append(slot)
        if slot in self.unreadable:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "its log cannot be read")
        await self.may_read.wait()
        for _ in range(5):
            await asyncio.sleep(0)  # what can be read takes more than a refusal
        return LastTold((snapshot(now_ms, said(9)), Place(1, now_ms)))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Faust]:
        """The first run, with nothing assigned yet."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.service._follow_progress()),
                group.create_task(self.service._take_slots()),
            ]
            yield await self.run(1)
            for task in tasks:
                task.cancel()

    async def run(self, number: int) -> Faust:
        """That run of the stream, once it has begun."""
        await self.soon(lambda: len(self.runs) >= number, f"run {number}")
        return self.runs[number - 1]

    async def held(self, *slots: SlotNumber) -> None:
        """Wait until these are watched, and we are ready."""
        await self.soon(lambda: self.why == "", "readiness")
        assert self.board.slots == list(slots)

    async def soon(self, what: Callable[[], bool], words: str) -> None:
        await until(what, deadline_s=SOON_S, what=words)

    @property
    def why(self) -> str:
        """What holds us back."""
        return self.health.reasons().get(STREAM, "")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_nothing_is_judged_of_which_nobody_listens_and_it_is_read_anew_when_it_comes_back(
    world: World,
) -> None:
    async with world.listening() as first:
        first.assign(frozenset({SLOT}))
        await world.held(SLOT)
        (lag,) = world.board
        lag.end_seen(9, world.context.clock.now_ms())
        assert world.board.look(SLOT, world.context.clock.now_ms()).samples != []

        first.crashed.set()
        second = await world.run(2)

        later_ms = world.context.clock.now_ms() + MINUTE_MS
        assert world.board.look(SLOT, later_ms).changes == []
        assert world.board.slots == []
        assert "the stream ended" in world.why

        second.assign(frozenset({SLOT}))
        await world.held(SLOT)
        assert world.taken == [SLOT, SLOT]


async def test_a_stream_that_stands_still_is_begun_anew(world: World) -> None:
    async with world.listening() as first:
        first.assign(frozenset({SLOT}))
        await world.held(SLOT)

        world.stalled.set()
        second = await world.run(2)

        assert world.board.slots == []
        assert "nothing comes any more" in world.why
        second.assign(frozenset({SLOT}))
        await world.held(SLOT)


async def test_slots_are_given_up_before_a_stream_that_ends_has_stopped(world: World) -> None:
    async with world.listening() as first:
        first.assign(frozenset({SLOT}))
        await world.held(SLOT)
        first.may_stop.clear()

        first.crashed.set()
        await first.stopping.wait()

        assert world.board.slots == []
        assert world.why != ""
        first.may_stop.set()


async def test_a_slot_that_is_still_read_when_the_stream_ends_is_not_held_nor_makes_ready(
    world: World,
) -> None:
    async with world.listening() as first:
        world.may_read.clear()
        first.assign(frozenset({SLOT}))
        await world.soon(lambda: world.taken == [SLOT], "the read")

        first.crashed.set()
        second = await world.run(2)
        world.may_read.set()
        await asyncio.sleep(0.05)

        assert world.board.slots == []
        assert "the stream ended" in world.why

        second.assign(frozenset({OTHER}))
        await world.held(OTHER)


async def test_who_listens_and_has_no_slot_is_ready(world: World) -> None:
    async with world.listening() as first:
        first.assign(frozenset())

        await world.held()


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_slot_that_cannot_be_read_keeps_no_other_one_from_being_watched(
    world: World, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    if hangs:
        monkeypatch.setattr(module, "_TAKE_S", 0.05)
        monkeypatch.setattr(module, "last_told", reads_only(SLOT, world))
    else:
        world.unreadable.add(OTHER)
    async with world.listening() as first:
        first.assign(frozenset({SLOT, OTHER}))
        await world.soon(lambda: world.board.slots == [SLOT], "the slot that can be read")
        await world.soon(lambda: world.why != "not read yet", "the word of the other one")
        why = world.why

    assert ("not read within" if hangs else "its log cannot be read") in why


def reads_only(slot: SlotNumber, world: World) -> Callable[..., Awaitable[LastTold]]:
    """Another one's leader is frozen."""

    async def last_told(*arguments: object) -> LastTold:
        if arguments[2] != slot:
            await asyncio.Event().wait()
        now_ms = world.context.clock.now_ms()
        return LastTold((snapshot(now_ms, said(9)), Place(1, now_ms)))

    return last_told


async def test_each_round_backlogs_of_a_worker_ease_each_other(world: World) -> None:
    board = world.service._board = watched({SLOT: "a", OTHER: "a"})
    for lag in board:
        world.service._view.apply(lag.entry)
        lag.eased = 1.0

    judging = asyncio.create_task(world.service._judge())
    await world.soon(lambda: min(lag.eased for lag in board) < 1, "a backlog to be eased")
    judging.cancel()
