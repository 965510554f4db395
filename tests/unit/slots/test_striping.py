"""The connections of a striped lane, with a far broker made of lists."""

from __future__ import annotations

import asyncio
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.copying.seats import Table
from mirrorfleet.copying.withheld import FOLLOWER
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka.fetcher import Fetched
from mirrorfleet.kafka.low_water import FAR_S
from mirrorfleet.slots import in_order, striping
from mirrorfleet.slots.striping import StripedLane
from mirrorfleet.wire.copybatch import A_BATCH
from tests.faultkit.waiting import until
from tests.unit.copying.making import BIG, entry, fetched
from tests.unit.slots.striped import NODE, REPLICA, SEATS, World, stopped, turns
from tests.unit.wire.batches import batch_of, marker, some

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_leader_that_names_a_replica_is_not_asked_for_the_piece_again(
    world: World,
) -> None:
    world.preferred = REPLICA
    running = asyncio.create_task(world.run())
    await until(lambda: world.rerouted, deadline_s=5, what="the replica to be preferred")
    await turns()
    await stopped(running)
    assert (world.partition.replica, world.rerouted, len(world.asked)) == (REPLICA, 1, 1)


@pytest.mark.parametrize(("leader_until", "told"), [(0.0, "a"), (inf, "")])
async def test_a_far_leader_is_told_the_rack_unless_it_would_name_one_out_of_reach(
    world: World, leader_until: float, told: str
) -> None:
    world.partition.leader_until = leader_until
    (piece,) = world.pieces(1, 1)
    await world.fetch_piece(piece)
    assert world.rack == told


async def test_seats_come_back_also_from_connections_that_never_began(world: World) -> None:
    async def begin_and_fail() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                world.lane._share.take()
                world.lane._start(group, None)
            raise ConnectionLostError("another one is lost at the same time")

    with pytest.raises(ExceptionGroup):
        await begin_and_fail()
    assert world.connects == 0
    assert world.lane._share.taken == 0


async def test_a_lane_has_answered_once_bytes_came_and_ends_with_its_connections(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bool] = []

    async def fetch(**asked: int) -> Fetched:
        answered.append(world.lane.answered)
        if len(answered) > 1:
            raise ConnectionLostError("the line is cut")
        return await World.fetch(world, **asked)

    monkeypatch.setattr(world, "fetch", fetch)
    with pytest.raises(ConnectionLostError):
        await world.run()
    assert answered == [False, True]
    assert world.connects > 1
    other = world.seats.at(NODE, SEATS).join()
    assert [other.take() for _ in range(SEATS)] == [True] * SEATS


async def test_what_a_piece_comes_to_stays_reserved_until_it_is_walked(world: World) -> None:
    world.lane._booking.weight.by = 3.0
    first, second = world.pieces(2, 1)
    await world.fetch_piece(second)
    size = len(fetched((1, [BIG])))
    assert world.budget.used == 3 * size

    await world.fetch_piece(first)
    assert len(world.partition.queue) == 2
    assert world.budget.used == 2 * (size + A_BATCH)
    for queued in world.partition.queue:
        queued.lease.done()
    assert (world.budget.used, world.budget.beside) == (0, 0)


async def test_a_piece_that_is_dropped_keeps_nothing_reserved(world: World) -> None:
    world.lane._booking.weight.by = 3.0
    _, second = world.pieces(2, 1)
    await world.fetch_piece(second)
    world.lane._stripes.drop(world.partition)

    assert world.budget.used == 0


async def test_a_piece_asks_for_what_memory_has_and_not_for_all_of_it(world: World) -> None:
    others = world.budget.account()
    others.resize(0, world.budget.limit - (world.budget.limit // 8) - (100 << 10))
    running = asyncio.create_task(world.run())
    await until(lambda: world.asked, deadline_s=5, what="a request")
    await stopped(running)
    assert 64 << 10 <= world.asked[0] <= 150 << 10  # two thirds of it are reserved


async def test_a_piece_leaves_memory_for_one_on_each_other_connection(world: World) -> None:
    connections = 16
    world.lane._fit(connections)
    piece = world.lane._next()
    assert piece is not None
    assert connections * piece.max_bytes <= 1.5 * world.budget.for_one
    assert (connections + 1) * piece.max_bytes > 1.4 * world.budget.for_one


@pytest.mark.parametrize(("held", "throttle", "left"), [(0, None, 0), (8, 100, 9), (8, None, 9)])
async def test_memory_is_full_for_a_lane_when_it_keeps_it_from_what_is_there(
    world: World, held: int, throttle: int | None, left: int
) -> None:
    """It is not when nothing is there, or no more is to be read."""
    world.pieces(1, offsets=10)
    world.partition.entry = entry(0, throttle=throttle)
    world.budget.account().resize(0, held << 20)
    world.partition.source = SourceEnds(10 + left, 10 + left, 0)

    assert world.lane._next() is None
    assert world.lane._appetite.is_full is (held > 0 and throttle is None)


@pytest.mark.parametrize("trips", [1, 5])
async def test_a_lane_without_room_has_more_connections_where_a_window_lets_little_through(
    world: World, trips: int
) -> None:
    world.runner.settings.fetch_connections = 150
    world.lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
    lane, table = world.lane, world.lane._table
    for _ in range(80):
        lane._booking.timed(trips * 0.1)
    lane._misses = lane._appetite.is_full = True
    lane._appetite.found_nothing()
    begun = lane._fan.count
    lane._measured(1e6)

    grown = 2 if trips > 1 else 1
    assert (lane._fan.count, table.seats) == (grown * begun, grown * table.FEW)
    assert lane._share.wanted == lane._fan.count - 1
    assert lane._stripes._most_bytes == lane._booking.within(world.budget.for_one) // max(
        table.expected, 1
    )


@pytest.mark.parametrize("quick", ["an answer", "a new connection"])
async def test_a_lane_ends_when_an_answer_shows_that_the_broker_was_only_busy(
    world: World, monkeypatch: pytest.MonkeyPatch, quick: str
) -> None:
    is_new, ends = quick == "a new connection", list[bool]()

    async def connect(node: int, *, purpose: str) -> object:
        del node, purpose
        return SimpleNamespace(rtt_s=0.001 if is_new else 0.1, close=lambda: None)

    async def fetch(**asked: int) -> Fetched:
        ends.append(world.lane.is_near)
        took_s[0] += 0.2 if len(ends) < 20 or is_new else 0.001
        return await World.fetch(world, **asked)

    took_s = [0.0]
    world.runner.clock = SimpleNamespace(monotonic=lambda: took_s[0])
    world.runner.source.connect = connect
    monkeypatch.setattr(world, "fetch", fetch)
    monkeypatch.setattr(striping, "FAR_S", FAR_S)
    world.lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
    await asyncio.wait_for(world.run(), 5)

    assert world.lane.is_near
    assert not ends[0]


async def test_under_tls_no_more_than_a_few_connections_are_opened(world: World) -> None:
    found = []
    world.runner.settings.fetch_connections = 150
    for world.settings.security.protocol.tls in (False, True):
        lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
        lane._table.widen()
        lane._table.widen()
        found.append((lane._table.seats, lane._line.is_capped))
    assert found == [(150, False), (48, True)]


async def test_the_round_trip_that_is_told_is_the_shortest_that_was_measured(world: World) -> None:
    world.lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
    world.lane._booking.timed(0.08)
    world.lane._booking.timed(0.2)
    world.lane._measured(1e6)
    assert world.lane._line.rtt_s == 0.08


async def test_no_connection_is_opened_where_there_is_nothing_to_ask_for(world: World) -> None:
    appetite, found = world.lane._appetite, list[bool]()
    appetite.found_nothing()
    for appetite.is_full in (False, True):
        found.append(world.lane._may_start())
    assert found == [False, True]


async def test_seats_that_are_not_worth_having_are_no_limit(world: World) -> None:
    """Only of as many as there may be is said that more would help."""
    world.runner.settings.fetch_connections = 150
    other = world.seats.at(NODE, 150).join()
    others = [other.take() for _ in range(Table.FEW)]
    told = []
    for _ in range(3):
        told.append((world.lane._may_start(), world.lane._line.is_crowded))
        world.lane._table.widen()
        others += [other.take() for _ in range(150)]
    assert others.count(True) == 150
    assert told == [(False, False), (False, False), (False, True)]


async def test_a_worker_may_have_as_many_connections_to_a_broker_as_are_set_and_no_more(
    world: World,
) -> None:
    world.runner.settings.fetch_connections = 40
    other = world.seats.at(NODE, 40).join()
    others = [other.take() for _ in range(37)]
    other.wanted = 37
    world.lane = StripedLane(cast("SlotRunner", world.runner), NODE, 0.1)
    running = asyncio.create_task(world.run())
    await until(lambda: world.connects == 3, deadline_s=5, what="the three that are left")
    line = world.runner.limits.lines[NODE]
    await until(lambda: line.is_crowded, deadline_s=5, what="a seat to be refused")
    await stopped(running)
    assert all(others)
    assert world.connects == 3


async def test_a_lane_with_more_than_its_share_ends_connections_for_one_that_has_fewer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(node: int, *, purpose: str) -> object:
        del node, purpose
        return SimpleNamespace(rtt_s=0.1, close=lambda: None)

    async def fetch(**asked: int) -> Fetched:
        """The other one comes when the lane has grown, and takes what it can get at each piece."""
        if share.taken == SEATS - 1:
            other.wanted = SEATS
        if other.wanted:
            other.take()
            seen.append((share.taken, other.taken))
        return await World.fetch(world, **asked)

    world.runner.source.connect = connect
    other, share = world.seats.at(NODE, SEATS).join(), world.lane._share
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(world, "fetch", fetch)
    running = asyncio.create_task(world.run())
    half = SEATS // 2
    await until(lambda: (half, half) in seen, deadline_s=5, what="a share for both")
    await stopped(running)

    assert seen[0] == (SEATS - 1, 1)
    assert max(theirs for _, theirs in seen) == half


@pytest.mark.parametrize(("throttle", "second"), [(200_000, False), (None, True)])
async def test_of_a_throttled_partition_a_seconds_worth_is_on_the_way(
    world: World, *, throttle: int | None, second: bool
) -> None:
    world.partition.entry = entry(0, throttle=throttle)
    world.partition.source = SourceEnds(100_000, 100_000, 0)
    world.lane._stripes._bytes_an_offset[world.partition] = 1_000.0

    first = world.lane._next()
    assert first is not None
    assert (first.max_bytes <= 200_000) is (throttle is not None)
    assert (world.lane._next() is not None) is second


async def test_the_piece_in_turn_names_the_epoch_of_the_batch_before_it_and_no_other_piece(
    world: World,
) -> None:
    first, second = world.pieces(2, offsets=2)
    world.partition.walked_epoch = 2

    await world.fetch_piece(second)
    await world.fetch_piece(first)

    named = [(each.offset, each.last_fetched_epoch) for each in world.points]
    assert named == [(2, -1), (3, -1), (0, 2), (1, 3)]
    assert [each.batch.first for each in world.partition.queue] == [0, 1, 2, 3]


async def test_a_partition_whose_history_is_another_one_is_examined_and_its_pieces_are_dropped(
    world: World,
) -> None:
    first, second = world.pieces(2, offsets=2)
    await world.fetch_piece(second)
    world.diverging = (3, 1)

    await world.fetch_piece(first)

    assert world.examined == [world.partition]
    assert (first.dropped, second.dropped) == (True, True)
    assert (len(world.partition.queue), world.partition.walked_to) == (0, 0)


async def test_of_a_piece_that_takes_two_answers_only_the_rest_is_asked_for_again(
    world: World,
) -> None:
    (piece,) = world.pieces(1, offsets=2)

    await world.fetch_piece(piece)

    first, second = world.asked
    assert second < first / 2
    for queued in world.partition.queue:
        queued.lease.done()
    assert (world.budget.used, world.budget.beside) == (0, 0)


async def test_each_answers_list_of_aborted_transactions_is_kept_with_its_piece(
    world: World,
) -> None:
    ended, seam, committed, late, at_end = range(11, 16)
    first, second, third = world.pieces(3, offsets=5)

    await world.arrive(
        third,
        batch_of(some(2, first=10), producer_id=late)
        + marker(12, committed, 1)
        + marker(13, late, 0)
        + batch_of(some(1, first=14), producer_id=at_end),
        (late, 10),
        (at_end, 14),
    )
    await world.arrive(
        second,
        batch_of(some(2, first=5), producer_id=seam)
        + batch_of(some(1, first=7))
        + batch_of(some(1, first=8), producer_id=committed)
        + marker(9, seam, 0),
        (seam, 4),
    )
    assert len(world.partition.queue) == 0
    await world.arrive(
        first,
        batch_of(some(2), producer_id=ended)
        + batch_of(some(1, first=2))
        + marker(3, ended, 0)
        + batch_of(some(1, first=4), producer_id=seam),
        (ended, 0),
        (seam, 4),
    )

    queue = world.partition.queue
    copied = [(each.batch.first, each.batch.count) for each in queue]
    assert (copied, world.partition.walked_to) == ([(2, 1), (7, 1), (8, 1)], 15)
    assert world.partition.omitted == 0


async def test_who_was_asked_is_remembered_until_its_answer_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a follower hands out nothing is sure, whoever is fetched from by then."""
    told: list[int | None] = []
    monkeypatch.setattr(in_order, "deliver", lambda *given: told.append(given[3].epoch))
    world.partition.replica, world.partition.replica_until = NODE, inf
    (piece,) = world.pieces(1, 1)
    world.partition.replica = None
    await world.fetch_piece(piece)

    assert told == [FOLLOWER]
