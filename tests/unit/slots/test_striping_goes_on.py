"""How a striped lane goes on: with fewer connections, a slow answer, and no work for a while."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka.fetcher import Fetched
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.slots import striping
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.striping import IDLE_S, MORE_S
from mirrorfleet.slots.waits import Bell
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry
from tests.unit.slots.striped import END, NODE, SEATS, World, stopped, turns

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.kafka.connection import Connection


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def takes(world: World, most: int) -> list[int]:
    """So many connections beside the first one; the numbers of those that were closed."""
    closed: list[int] = []

    async def connect(node: int, *, purpose: str) -> object:
        del node, purpose
        world.connects += 1
        number = world.connects
        await asyncio.sleep(0)  # all are being made before the first one is refused
        if number > most:
            raise ConnectionLostError("too many connections")
        return SimpleNamespace(rtt_s=0.1, close=lambda: closed.append(number))

    world.runner.source.connect = connect
    return closed


def clock_of(world: World) -> list[float]:
    """The time, from now on as the test sets it."""
    now = [world.lane._worked_at]
    world.runner.clock.monotonic = lambda: now[0]
    return now


@pytest.mark.parametrize("most", [0, 3])
async def test_a_lane_goes_on_with_as_many_connections_as_its_broker_takes(
    world: World, most: int
) -> None:
    """A limit of connections, a quota of new ones or a slow handshake costs only those."""
    takes(world, most)
    running = asyncio.create_task(world.run())
    await until(lambda: world.partition.walked_to == END, deadline_s=5, what="all of it")
    found = world.lane._connections, world.lane._fan.count
    await stopped(running)

    assert [each.batch.first for each in world.partition.queue] == list(range(END))
    assert (found, world.connects) == ((most + 1, most + 1), SEATS - 1)


async def test_more_connections_are_tried_after_a_while_and_each_time_that_they_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(**_: int) -> Fetched:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    takes(world, 0)
    now = clock_of(world)
    monkeypatch.setattr(world, "fetch", fetch)
    running = asyncio.create_task(world.run())
    await until(lambda: world.lane._fan.count == 1, deadline_s=5, what="all to be refused")
    await turns()
    tried = [world.connects]
    for _ in range(2):
        now[0] += MORE_S
        await until(lambda: world.connects > tried[-1], deadline_s=5, what="one more")
        await turns()
        tried.append(world.connects)
    await stopped(running)

    assert tried == [SEATS - 1, SEATS, SEATS + 1]


async def test_a_lane_is_not_idle_while_an_answer_takes_longer_than_that(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a thin line, or under a quota, all connections would be made anew with backlog left."""
    comes = asyncio.Event()

    async def fetch(**asked: int) -> Fetched:
        await comes.wait()
        return await World.fetch(world, **asked)

    takes(world, SEATS)
    now = clock_of(world)
    monkeypatch.setattr(world, "fetch", fetch)
    running = asyncio.create_task(world.run())
    await until(lambda: world.connects == SEATS - 1, deadline_s=5, what="all connections")
    await turns()
    now[0] += IDLE_S + 1
    await turns()
    kept = world.lane._connections
    comes.set()
    await until(lambda: world.partition.walked_to == END, deadline_s=5, what="all of it")
    await stopped(running)

    assert (kept, world.connects) == (SEATS, SEATS - 1)


async def test_of_connections_without_work_one_looks_at_a_bell_and_all_end_when_idle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell, looks = Bell(), [0]

    def wanted(*_: object) -> list[CopyPartition]:
        looks[0] += 1
        return []

    closed = takes(world, SEATS)
    now = clock_of(world)
    world.runner.room = bell.heard
    monkeypatch.setattr(striping, "LOOK_S", 60.0)
    monkeypatch.setattr(world.slot, "wanted", wanted)
    running = asyncio.create_task(world.run())
    await until(lambda: looks[0] >= SEATS, deadline_s=5, what="all to find nothing")
    await turns()
    before = looks[0]
    bell.ring()
    await turns()
    at_bell = looks[0] - before
    now[0] += IDLE_S + 1
    bell.ring()
    await asyncio.wait_for(running, 5)

    # the one that waited, and the one whose turn it is then
    assert at_bell == 2
    assert sorted(closed) == list(range(1, SEATS))


async def test_where_batches_are_far_larger_than_was_learned_pieces_stay_within_the_memory(
    world: World,
) -> None:
    """A sparse log grows dense: each of these pieces would be eight times the memory."""
    partition, taken = world.partition, list[int]()
    pieces = world.pieces(4, offsets=2_000)
    for piece in reversed(pieces):
        await world.fetch_piece(piece)
    peak = world.budget.peak
    while partition.walked_to < END:
        again = world.lane._next()
        assert again is not None
        await world.fetch_piece(again)
        while partition.queue:
            queued = partition.queue.popleft()
            taken.append(queued.batch.first)
            partition.queued_bytes -= queued.batch.size
            queued.lease.done()

    assert (peak < world.budget.limit, world.budget.peak < world.budget.limit) == (True, True)
    assert taken == list(range(partition.walked_to))


@pytest.mark.parametrize(
    ("state", "asked", "walked_to"), [(CatalogState.ACTIVE, 3, 3), (CatalogState.PAUSED, 1, 1)]
)
async def test_the_rest_of_a_piece_that_is_alone_is_left_while_its_partition_is_not_wanted(
    world: World, state: CatalogState, asked: int, walked_to: int
) -> None:
    (piece,) = world.pieces(1, offsets=3)
    world.partition.entry = entry(0, state=state)
    await world.fetch_piece(piece)

    assert (len(world.asked), world.partition.walked_to) == (asked, walked_to)
    world.partition.entry = entry(0)
    rest = world.lane._next()
    assert rest is not None
    assert rest.first == walked_to


async def test_the_rest_of_a_piece_is_left_while_the_queue_is_full_unless_others_wait_behind_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(striping, "QUEUE_SHARE", 1 << 20)  # any batch fills it
    first, second = world.pieces(2, offsets=3)
    await world.fetch_piece(first)
    assert (first.whole, len(world.asked)) == (True, 3)

    await world.fetch_piece(second)
    assert (second.dropped, len(world.asked)) == (True, 4)
    assert world.partition.walked_to == 4


async def test_the_first_connection_has_no_seat_and_is_the_last_that_ends(world: World) -> None:
    lane, first, now = world.lane, cast("Connection", object()), clock_of(world)
    lane._fan.limit(2)

    def ends(connections: int) -> list[bool]:
        lane._connections = connections
        return [lane._is_of_use(each) for each in (first, None)]

    assert ends(3) == [True, False]
    assert ends(2) == [True, True]
    now[0] += IDLE_S + 1
    assert ends(1) == [False, False]


async def test_what_an_earlier_leader_said_is_asked_again_of_the_one_that_there_is(
    world: World,
) -> None:
    """Also what waits for its turn: with the epoch of what is there already it shows whether the
    histories are one.
    """
    first, second = world.pieces(2, offsets=1)
    await world.fetch_piece(second)
    world.runner.sources.of = lambda *_: LeaderAt(NODE, 1)
    await world.fetch_piece(first)

    assert (first.stale, second.stale, len(world.partition.queue)) == (True, True, 0)
    piece = world.lane._next()
    assert piece is not None
    await world.fetch_piece(piece)
    assert [each.batch.first for each in world.partition.queue][:2] == [0, 1]
    assert [each.leader_epoch for each in world.points][:3] == [0, 0, 1]
