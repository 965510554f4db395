"""The map of followed segments is whole, whatever became of their log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import FleetName, SlotNumber, SourceOffset
from mirrorfleet.mapping import following
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.store import Bounds, StoredEntry
from mirrorfleet.offsets.index import Found
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.records.topics import ControlKind
from tests.unit.kafka.logs import TOPIC, Logs
from tests.unit.offsets.making import PARTITIONS, run_of

if TYPE_CHECKING:
    from mirrorfleet.mapping.store import MapStore

SLOTS = tuple(map(SlotNumber, range(2)))


class Store:
    """Segments as they are in the logs, and an archive that is empty."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.loads = 0
        self.silent: set[SlotNumber] = set()

    async def bounds(self, kind: ControlKind, slot: SlotNumber) -> Bounds:
        if slot in self.silent:
            raise DeadlineError(f"slot {slot} says nothing")
        if kind is ControlKind.SEGMENTS:
            return Bounds(0, len(self._logs.records[slot]))
        self.loads += 1  # an empty archive is asked where it ends, and not read
        return Bounds(0, 0)

    async def archive(self, *_: object) -> AsyncGenerator[StoredEntry, None]:
        for entry in list[StoredEntry]():
            yield entry


class World:
    """Two slots that copy a partition each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs = Logs(monkeypatch, *SLOTS)
        self.store = Store(self.logs)
        monkeypatch.setattr(following, "_LOOK_AGAIN_S", 0.0)
        store = cast("MapStore", self.store)
        self.follower = MapFollower(self.logs.cluster, FleetName("west"), store)
        self.follower.want(SLOTS)

    def copy(self, slot: SlotNumber, *numbers: int, epoch: int = 1) -> None:
        """Segment n: source [10 n, 10 n + 5) is target [6 n, 6 n + 5)."""
        for n in numbers:
            runs = ((PARTITIONS[slot], (run_of(10 * n, 10 * n + 5, 6 * n),)),)
            self.logs.write(slot, encode_segment(Segment(slot, 1_000 + n, runs)), epoch=epoch)

    def known(self, slot: SlotNumber, upto: int) -> list[int]:
        """Which segments are in the map."""
        found = self.follower.index.of(PARTITIONS[slot])
        answers = [found and found.to_target(SourceOffset(10 * n)) for n in range(upto)]
        return [
            n
            for n, answer in enumerate(answers)
            if answer and (answer.offset, answer.found) == (6 * n, Found.EXACT)
        ]

    async def steps(self, count: int) -> None:
        for _ in range(count):
            await self.follower.step()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize("steps_while_short", [0, 5])
async def test_segments_that_lost_their_tail_and_grew_again_leave_no_hole_in_the_map(
    world: World, steps_while_short: int
) -> None:
    slot, other = SLOTS
    world.copy(slot, *range(10))
    await world.follower.catch_up()
    loads = world.store.loads

    del world.logs.records[slot][7:]
    world.copy(other, 0)
    await world.steps(steps_while_short)
    world.copy(slot, *range(10, 14), epoch=2)
    await world.steps(5)

    assert world.known(slot, 14) == list(range(14))
    assert world.known(other, 1) == [0]
    assert world.store.loads == loads + 1  # of the one slot, once


async def test_a_slot_without_a_leader_stops_no_other_and_is_read_when_it_has_one(
    world: World,
) -> None:
    slot, other = SLOTS
    world.copy(slot, 0)
    world.copy(other, 0)
    world.logs.lose_leader(slot)

    await world.steps(3)

    assert (world.known(slot, 1), world.known(other, 1)) == ([], [0])
    assert world.follower.leaderless.keys() == world.follower.unread == {slot}
    world.logs.leaders[slot] = 1
    await world.follower.catch_up()
    assert world.known(slot, 1) == [0]
    assert not world.follower.leaderless
    assert not world.follower.unread


async def test_slots_whose_broker_cannot_be_reached_stop_no_other_and_are_read_when_it_can(
    world: World,
) -> None:
    slot, other = SLOTS
    world.logs.leaders[slot] = 2
    world.logs.forget_leaders(TOPIC)
    world.logs.unreachable = {2}
    world.copy(slot, 0)
    for number in range(3):
        world.copy(other, number)
        await world.steps(2)
        assert (world.known(slot, 1), world.known(other, 3)) == ([], [*range(number + 1)])
        assert world.follower.leaderless.keys() == world.follower.unread == {slot}

    world.logs.unreachable = set()
    await world.follower.catch_up()

    assert world.known(slot, 1) == [0]
    assert not world.follower.leaderless


async def test_a_slot_that_does_not_answer_while_it_is_loaded_stops_no_other(world: World) -> None:
    slot, other = SLOTS
    world.store.silent = {slot}
    world.copy(slot, 0)
    world.copy(other, 0)

    await world.steps(2)

    assert (world.known(slot, 1), world.known(other, 1)) == ([], [0])
    assert world.follower.leaderless.keys() == {slot}
    world.store.silent = set()
    await world.follower.catch_up()
    assert world.known(slot, 1) == [0]


async def test_slots_of_a_broker_that_cannot_be_reached_do_not_wait_for_it_one_after_the_other(
    world: World,
) -> None:
    world.logs.unreachable = {1}

    with pytest.raises(ConnectionLostError):  # nothing is followed, and who asks is told
        await world.follower.step()

    assert world.logs.tried == [1]
    assert world.follower.leaderless.keys() == set(SLOTS)


async def test_a_slot_that_loses_its_leader_while_it_is_followed_stops_no_other(
    world: World,
) -> None:
    slot, other = SLOTS
    await world.follower.catch_up()
    world.logs.lose_leader(slot)
    world.copy(slot, 0)
    world.copy(other, 0)

    await world.steps(2)

    assert (world.known(slot, 1), world.known(other, 1)) == ([], [0])
    assert world.follower.leaderless.keys() == {slot}
    assert not world.follower.unread
    world.logs.leaders[slot] = 1
    await world.steps(3)
    assert world.known(slot, 1) == [0]


async def test_who_wants_the_map_of_now_is_told_that_a_slot_has_no_leader(world: World) -> None:
    world.logs.lose_leader(SLOTS[0])

    with pytest.raises(DeadlineError, match=r"offset map.*LEADER_NOT_AVAILABLE"):
        await world.follower.catch_up()


async def test_who_wants_the_map_of_now_is_done_where_segments_that_lost_their_tail_end(
    world: World,
) -> None:
    """They were cut between the question where they end and the first read."""
    slot, other = SLOTS
    world.copy(slot, *range(10))
    world.copy(other, 0)
    await world.follower._load_wanted()
    del world.logs.records[slot][7:]

    async with asyncio.timeout(5.0):
        await world.follower.catch_up()

    assert world.known(slot, 10) == list(range(7))
    assert world.known(other, 1) == [0]


async def test_the_map_says_since_when_it_lacks_something(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot, other = SLOTS
    assert world.follower.complete_at is None
    world.copy(slot, 0)
    await world.follower.catch_up()
    loop = asyncio.get_running_loop()
    real, shift = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + shift)

    async def lacks_s() -> float:
        """How old the map is after a step."""
        await world.follower.step()
        assert world.follower.complete_at is not None
        return round(loop.time() - world.follower.complete_at, -1)

    assert await lacks_s() == 0.0
    shift += 30.0  # an answer that lacks what is there already
    world.logs.most = 1
    world.copy(slot, 1, 2)
    assert await lacks_s() == 30.0
    assert await lacks_s() == 0.0
    shift += 30.0
    world.logs.lose_leader(other)
    assert await lacks_s() == 30.0
    world.logs.leaders[other] = 1
    await world.follower.step()
    assert await lacks_s() == 0.0
