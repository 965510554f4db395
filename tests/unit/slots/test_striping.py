"""The connections of a striped lane, with a far broker made of lists."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.limits import Limits
from mirrorfleet.copying.partition import Pace, SourceView
from mirrorfleet.copying.stripes import Seats
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchPoint
from mirrorfleet.slots import striping
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.striping import StripedLane
from tests.faultkit.waiting import until
from tests.unit.copying.making import BIG, SOURCE_TOPIC, entry, fetched, identity, slot

if TYPE_CHECKING:
    from mirrorfleet.kafka.connection import Connection
    from mirrorfleet.slots.runner import SlotRunner

NODE, REPLICA, SEATS = 1, 3, 8
END = 100


class World:
    """A partition of a hundred batches that catches up; a lane of the broker that leads it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seats = Seats()
        self.budget = MemoryBudget(8 << 20)
        self.slot = slot(entry(0), budget=self.budget)
        self.partition = self.slot.partitions[identity(0)]
        self.partition.pace, self.partition.source = Pace.CATCH_UP, SourceView(END, END, 0)
        self.preferred = -1
        self.asked: list[int] = []
        """Bytes of each request."""
        self.wanted: FetchPoint | None = None
        self.connects = self.rerouted = 0
        self.fails = asyncio.Event()
        self.runner = SimpleNamespace(
            number=0,
            slot=self.slot,
            budget=self.budget,
            seats=self.seats,
            limits=Limits(),
            clock=SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()),
            settings=SimpleNamespace(
                partition_fetch_bytes=1 << 20, fetch_connections=SEATS, fetch_wait_ms=1
            ),
            meters=SimpleNamespace(fetched=SimpleNamespace(value=0)),
            source=SimpleNamespace(connect=self.connect, settings=SimpleNamespace(rack="a")),
            sources=SimpleNamespace(of=lambda *_: LeaderAt(NODE, 0)),
            room=asyncio.sleep,
            wake=lambda: None,
            reroute=self.reroute,
            report_fault=lambda partition: None,
        )
        monkeypatch.setattr(striping, "FetchLane", lambda *_, **__: self)
        monkeypatch.setattr(striping, "LOOK_S", 0.0)
        self.lane = StripedLane(cast("SlotRunner", self.runner), NODE, 0.1)

    async def connect(self, node: int, *, purpose: str) -> object:
        del node, purpose
        self.connects += 1
        await self.fails.wait()
        raise ConnectionLostError("the line is cut")

    def reroute(self) -> None:
        self.rerouted += 1

    def want(self, point: FetchPoint) -> None:
        self.wanted = point

    def forget(self, *_: object) -> None:
        self.wanted = None

    async def fetch(self, *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> Fetched:
        del min_bytes, max_wait_ms
        point = self.wanted
        assert point is not None
        self.asked.append(max_bytes)
        await asyncio.sleep(0)
        frame = bytearray() if self.preferred >= 0 else fetched((point.offset, [BIG]))
        part = FetchedPartition(
            "orders",
            SOURCE_TOPIC,
            0,
            ErrorCode.NONE,
            high_watermark=END,
            last_stable_offset=END,
            log_start_offset=0,
            diverging_epoch=None,
            current_leader=None,
            preferred_replica=self.preferred,
            aborted=[],
            start=0,
            end=len(frame),
        )
        return Fetched(frame, [part], 0)

    async def run(self) -> None:
        first = SimpleNamespace(rtt_s=0.1, close=lambda: None)
        await self.lane.run(cast("Connection", first))


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_leader_that_names_a_replica_is_not_asked_for_the_piece_again(
    world: World,
) -> None:
    world.preferred = REPLICA
    running = asyncio.create_task(world.run())
    await until(lambda: world.rerouted, deadline_s=5, what="the replica to be preferred")
    for _ in range(20):
        await asyncio.sleep(0)
    await stopped(running)
    assert (world.partition.replica, world.rerouted, len(world.asked)) == (REPLICA, 1, 1)


async def test_seats_come_back_also_from_connections_that_never_began(world: World) -> None:
    async def begin_and_fail() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                world.seats.take(NODE, SEATS)
                world.lane._start(group, None)
            raise ConnectionLostError("another one is lost at the same time")

    with pytest.raises(ExceptionGroup):
        await begin_and_fail()
    assert world.connects == 0
    assert [world.seats.take(NODE, SEATS) for _ in range(SEATS)] == [True] * SEATS


async def test_a_lane_has_answered_once_bytes_came_and_ends_with_its_connections(
    world: World,
) -> None:
    assert not world.lane.answered
    running = asyncio.create_task(world.run())
    await until(lambda: world.lane.answered, deadline_s=5, what="an answer")
    world.fails.set()
    with pytest.raises(ConnectionLostError):
        await running
    assert world.connects > 1
    assert [world.seats.take(NODE, SEATS) for _ in range(SEATS)] == [True] * SEATS


async def test_a_piece_asks_for_what_memory_has_and_not_for_all_of_it(world: World) -> None:
    others = world.budget.account()
    others.resize(0, world.budget.limit - (world.budget.limit // 8) - (100 << 10))
    running = asyncio.create_task(world.run())
    await until(lambda: world.asked, deadline_s=5, what="a request")
    await stopped(running)
    assert 64 << 10 <= world.asked[0] <= 100 << 10


async def test_a_worker_may_have_as_many_connections_to_a_broker_as_are_set_and_no_more(
    world: World,
) -> None:
    world.runner.settings.fetch_connections = 100
    others = [world.seats.take(NODE, 100) for _ in range(97)]
    world.lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
    running = asyncio.create_task(world.run())
    await until(lambda: world.connects == 3, deadline_s=5, what="the three that are left")
    line = world.runner.limits.lines[NODE]
    await until(lambda: line.is_crowded, deadline_s=5, what="a seat to be refused")
    await stopped(running)
    assert all(others)
    assert world.connects == 3


@pytest.mark.parametrize(("throttle", "second"), [(200_000, False), (None, True)])
async def test_of_a_throttled_partition_a_seconds_worth_is_on_the_way(
    world: World, *, throttle: int | None, second: bool
) -> None:
    world.partition.entry = entry(0, throttle=throttle)
    world.partition.source = SourceView(100_000, 100_000, 0)
    world.lane._stripes._bytes_an_offset[world.partition] = 1_000.0

    first = world.lane._next()
    assert first is not None
    assert (first.max_bytes <= 200_000) is (throttle is not None)
    assert (world.lane._next() is not None) is second
