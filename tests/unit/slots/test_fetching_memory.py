"""Fetch lanes that share the memory of a worker, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.partition import Pace
from mirrorfleet.copying.schedule import MarkerShare
from mirrorfleet.kafka.fetcher import Fetched, FetchLane
from mirrorfleet.slots import fetching
from mirrorfleet.slots.fetching import LaneKey, _Lane
from mirrorfleet.slots.settings import SlotSettings
from mirrorfleet.slots.waits import reserved
from tests.faultkit.virtual import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mirrorfleet.copying.budget import Account, FrameLease
    from mirrorfleet.slots.runner import SlotRunner

MEMORY = 56 << 20
ACKNOWLEDGED_S = 0.05
"""After an answer the target has all of it."""
MANY = 400


class Frame:
    """As many bytes as it says, of which there are none."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


class Source:
    """One broker: how long an answer takes and what it has, by what was asked for."""

    def __init__(self, answer: Callable[[int], tuple[float, int]]) -> None:
        self.answer = answer
        self.asked: list[int] = []

    async def fetch(self, *, max_bytes: int, **_: object) -> Fetched:
        self.asked.append(max_bytes)
        await asyncio.sleep(self.answer(max_bytes)[0])
        size = self.answer(max_bytes)[1]  # another one by now, perhaps
        return Fetched(cast("bytes", Frame(size)), [], 0)


def idle(max_bytes: int) -> tuple[float, int]:
    """A long poll that nothing comes of."""
    del max_bytes
    return 0.5, 200


def backlog(max_bytes: int) -> tuple[float, int]:
    return 0.001, max_bytes


class Lane(_Lane):
    """It always has something to fetch; what came is acknowledged after a while."""

    copied = 0
    beside = 0.0
    """Bytes that are known of each byte of an answer."""

    def _point(self, lane: FetchLane) -> bool:
        del lane
        return True

    async def _deliver(self, fetched: Fetched, lease: FrameLease) -> int:
        lease.hold(1, int(self.beside * len(fetched.buffer)))
        asyncio.get_running_loop().call_later(ACKNOWLEDGED_S, self._acknowledged, fetched, lease)
        return lease.took

    def _acknowledged(self, fetched: Fetched, lease: FrameLease) -> None:
        self.copied += len(fetched.buffer)
        lease.done()

    async def keep(self, source: Source) -> None:
        while True:
            await self._rest()
            await self._fetch_once(cast("FetchLane", source))


def lane_of(budget: MemoryBudget, pace: Pace) -> Lane:
    settings = SlotSettings()
    runner = SimpleNamespace(
        settings=settings,
        commits=settings.commits,
        markers=MarkerShare(),
        budget=budget,
        source=SimpleNamespace(settings=SimpleNamespace(rack=None)),
        clock=SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()),
    )
    return Lane(cast("SlotRunner", runner), LaneKey(1, pace))


class World:
    """A worker with a backlog behind one lane, and others of the live tail."""

    def __init__(self, lives: int = 0) -> None:
        self.budget = MemoryBudget(MEMORY)
        self.behind = lane_of(self.budget, Pace.CATCH_UP)
        self.lives = [lane_of(self.budget, Pace.LIVE) for _ in range(lives)]
        self.old, self.tail = Source(backlog), Source(idle)

    async def runs(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        pairs = [*((each, self.tail) for each in self.lives), (self.behind, self.old)]
        tasks = [loop.create_task(lane.keep(source)) for lane, source in pairs]
        await asyncio.sleep(seconds)
        for each in tasks:
            each.cancel()
            await asyncio.wait([each])


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Sequence[Account]:
    """Who had to wait for memory."""
    found: list[Account] = []

    async def watched(account: Account, size: int) -> bool:
        has_waited = await reserved(account, size)
        if has_waited:
            found.append(account)
        return has_waited

    monkeypatch.setattr(fetching, "reserved", watched)
    return found


def test_hundreds_of_idle_lanes_leave_a_backlog_a_third_of_its_pace_and_none_of_them_waits(
    waited: Sequence[Account],
) -> None:
    alone, beside = World(), World(MANY)
    in_virtual_time(alone.runs(5.0))
    in_virtual_time(beside.runs(5.0))

    assert beside.behind.copied > alone.behind.copied / 3
    assert not {each._memory for each in beside.lives}.intersection(waited)


def test_lanes_that_become_busy_in_the_same_moment_stay_within_the_memory() -> None:
    world = World(MANY)

    async def busy_after_a_while() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1.2, setattr, world.tail, "answer", backlog)
        await world.runs(2.0)

    in_virtual_time(busy_after_a_while())

    assert min(each.copied for each in world.lives) > 64 << 10
    assert world.budget.peak <= MEMORY


def test_a_few_idle_lanes_ask_for_all_that_may_come_while_there_is_room() -> None:
    world = World(16)
    world.old.answer = idle
    in_virtual_time(world.runs(2.0))

    assert set(world.tail.asked) == {256 << 10}


@pytest.mark.parametrize("pace", list(Pace))
def test_a_lane_with_full_answers_asks_for_twice_as_much_each_time(pace: Pace) -> None:
    lane, source = lane_of(MemoryBudget(MEMORY), pace), Source(backlog)

    async def asks_often() -> None:
        for _ in range(6):
            await lane._fetch_once(cast("FetchLane", source))

    in_virtual_time(asks_often())

    assert [size >> 10 for size in source.asked] == [256, 512, 1_024, 2_048, 4_096, 8_192]


def test_where_memory_is_short_a_lane_begins_with_little_and_goes_on_at_once() -> None:
    budget = MemoryBudget(MEMORY)
    budget.account().resize(0, MEMORY - MEMORY // 8 - (1_536 << 10))
    lane, source = lane_of(budget, Pace.LIVE), Source(backlog)

    async def becomes_busy() -> None:
        task = asyncio.get_running_loop().create_task(lane.keep(source))
        await asyncio.sleep(0.0045)
        task.cancel()
        await asyncio.wait([task])

    in_virtual_time(becomes_busy())

    assert [size >> 10 for size in source.asked] == [16, 32, 64, 128, 256]


def test_what_is_known_of_tiny_batches_stays_within_the_memory_and_keeps_no_live_lane_waiting(
    waited: Sequence[Account],
) -> None:
    world = World(16)
    world.behind.beside = 5.0

    in_virtual_time(world.runs(20.0))

    assert world.budget.peak <= MEMORY
    assert not {each._memory for each in world.lives}.intersection(waited)
    assert world.behind.copied > 1 << 30
