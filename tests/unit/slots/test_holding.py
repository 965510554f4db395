"""Partitions whose target cannot be written to: how often they are fetched for nothing."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from unittest.mock import AsyncMock, call
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import Pace, SourceEnds, start_position
from mirrorfleet.core.ids import FleetName, SourceOffset
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.wire.copybatch import Dropped, FaultKind
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import Target, sender_of

TICK_S = 0.125
BEFORE = UUID(int=0xC)
LEADER = LeaderAt(1, 0)


class World:
    """A source with more of partition 0 at any time, and a target that knows no leader of it."""

    def __init__(self) -> None:
        self.target = Target()
        self.sender, self.runner = sender_of(self.target, entry(0), entry(1))
        self.partition = self.runner.slot.partitions[identity(0)]
        self.now = 0.0
        self.fetched_at: list[float] = []
        self.leader: LeaderAt | None = None
        self.absent_s = 0.0
        self.drops = self.told = False
        self.runner.fleet = FleetName("west")
        self.runner.clock = SimpleNamespace(monotonic=lambda: self.now, now_ms=lambda: 5)
        self.runner.targets.of = self._leader_of
        self.runner.targets.absent_for = lambda topic: self.absent_s

    def _leader_of(self, topic: str, partition: int) -> LeaderAt | None:
        if topic == "__mirrorfleet.west.events":
            return LEADER if self.told else None
        return self.leader if (topic, partition) == self.partition.target else LEADER

    async def runs(self, seconds: float) -> None:
        """What is wanted is fetched, and what is queued sent, tick by tick."""
        slot, partition = self.runner.slot, self.partition
        for _ in range(round(seconds / TICK_S)):
            if partition in slot.wanted(Pace.LIVE, self.now):
                self.fetched_at.append(self.now)
                first = partition.walked_to
                give(slot, partition, fetched((first, [ALONE])), end=first + 1, now=self.now)
                if self.drops:
                    partition.dropped.append(Dropped(first, FaultKind.NULL_KEY))
            await self.sender.transact()
            self.now += TICK_S


async def test_what_has_no_leader_is_fetched_ever_less_often_and_at_once_when_it_has_one() -> None:
    world = World()

    await world.runs(60)
    assert world.fetched_at == [0, 1, 3, 7, 15, 31]
    assert "produce east.orders-0" not in world.target.seen

    world.leader = LEADER
    await world.runs(1)
    assert world.fetched_at[6] < 60.5
    assert "produce east.orders-0" in world.target.seen

    world.leader, world.fetched_at = None, []
    await world.runs(2)
    assert world.fetched_at == [61, 62]


async def test_it_is_never_left_out_for_longer_than_half_a_minute() -> None:
    world = World()

    await world.runs(130)

    assert world.fetched_at[5:] == [31, 61, 91, 121]


@pytest.mark.parametrize("why", ["in doubt", "avoided"])
async def test_so_is_what_has_a_leader_that_may_not_be_written_to_yet(why: str) -> None:
    world, blocked = World(), frozenset({World().partition.target})
    world.leader = LEADER
    world.runner.doubts.doubted |= blocked if why == "in doubt" else set()
    world.runner.wedges.avoided = blocked if why == "avoided" else frozenset()

    await world.runs(20)
    assert world.fetched_at == [0, 1, 3, 7, 15]

    world.runner.doubts.doubted.clear()
    world.runner.wedges.avoided = frozenset()
    await world.runs(1)
    assert world.fetched_at[5] < 20.5


async def test_so_is_what_passes_records_that_the_ledger_cannot_be_told_of() -> None:
    world = World()
    world.leader, world.drops = LEADER, True
    other = world.runner.slot.partitions[identity(1)]
    give(world.runner.slot, other, fetched((0, [ALONE])), end=1)

    await world.runs(20)
    assert world.fetched_at == [0, 1, 3, 7, 15]
    assert "produce east.orders-0" not in world.target.seen
    assert "produce east.orders-1" in world.target.seen
    assert world.target.seen.count("abort") == 0

    world.told = True
    await world.runs(1)
    assert world.fetched_at[5] < 20.5
    assert "produce east.orders-0" in world.target.seen


async def test_a_position_that_only_passes_such_records_waits_with_them() -> None:
    world = World()
    world.leader = LEADER
    moved = world.runner.slot.partitions[identity(1)]
    moved.walked_to, moved.source = SourceOffset(5), SourceEnds(5, 5, 0)
    moved.dropped.append(Dropped(SourceOffset(4), FaultKind.NULL_KEY))

    await world.runs(20)
    assert moved.committed.next_source == 0

    world.told = True
    await world.runs(20)
    assert moved.committed.next_source == 5


async def test_what_is_examined_meanwhile_is_not_fetched_before_that_is_over() -> None:
    world = World()
    await world.runs(1)
    world.partition.held_until = inf

    world.leader = LEADER
    await world.runs(1)

    assert world.partition.held_until == inf
    assert world.fetched_at == [0]


async def test_that_its_topic_is_gone_is_noticed_while_it_is_left_out() -> None:
    world = World()
    told: list[Fault] = []
    vars(world.runner).update(
        link=SimpleNamespace(target="west"),
        stop_partition=lambda partition, fault: told.append(fault),
    )
    await world.runs(16)
    fetches = len(world.fetched_at)

    world.absent_s = 11.0
    await world.runs(2 * TICK_S)

    assert len(world.fetched_at) == fetches
    assert {fault.reason for fault in told} == {FaultReason.TARGET_MISSING}


async def test_nothing_is_written_to_another_topic_of_the_name_that_the_copy_had() -> None:
    """Nothing was copied yet that it could lack; and where topics have no ids, it takes all."""
    world = World()
    world.leader = LEADER
    world.runner.targets.topic_id = lambda topic: BEFORE
    told: list[Fault] = []
    vars(world.runner).update(
        link=SimpleNamespace(target="west"),
        stop_partition=lambda partition, fault: told.append(fault),
    )

    await world.runs(TICK_S)

    assert "produce east.orders-0" not in world.target.seen
    assert {fault.reason for fault in told} == {FaultReason.TARGET_RECREATED}


@pytest.mark.parametrize(("version", "counts"), [("V1", False), ("V2", True)])
async def test_what_went_to_a_topic_that_was_made_again_just_now_does_not_count(
    version: str, *, counts: bool
) -> None:
    """Metadata of before knows nothing of it. v2 is refused there: it tells the id with each batch.

    Only what is new is asked about.
    """
    target = Target()
    sender, runner = sender_of(target, entry(0), version=TransactionVersion[version])
    partition = runner.slot.partitions[identity(0)]
    told = SimpleNamespace(topics={partition.target.topic: SimpleNamespace(topic_id=BEFORE)})
    runner.target.metadata = AsyncMock(return_value=told)
    give(runner.slot, partition, fetched((0, [ALONE])), end=1, now=0.0)

    with nullcontext() if counts else pytest.raises(AbortError, match="of another topic"):
        await sender.transact()

    assert ("produce east.orders-0" in target.seen, "commit" in target.seen) == (True, counts)
    asked = [call([partition.target.topic], deadline_s=2.0)]
    assert runner.target.metadata.mock_calls == ([] if counts else asked)


async def test_a_topic_that_an_incarnation_before_had_is_old_metadata_and_stops_nothing() -> None:
    """One broker of the target lags: nothing is written before another one is asked."""
    world, shown = World(), [BEFORE]
    slot, now = world.runner.slot, entry(0, identity=replace(identity(0), incarnation=1))
    slot.dismiss(identity(0))
    former = replace(identity(0), target_topic_id=BEFORE)
    slot.known[former] = start_position(former, SourceOffset(0), 1)
    world.partition = slot.admit(now, start_position(now.identity, SourceOffset(0), 1))
    world.leader = LEADER
    world.runner.targets.topic_id = lambda topic: shown[0]

    await world.runs(1)
    assert "produce east.orders-0" not in world.target.seen
    assert world.partition.fault is None

    shown[0] = now.identity.target_topic_id
    await world.runs(1)
    assert "produce east.orders-0" in world.target.seen


async def test_what_left_the_slot_is_forgotten() -> None:
    world = World()
    await world.runs(1)
    world.runner.slot.dismiss(identity(0))
    world.absent_s = 11.0

    await world.runs(1)  # or it would be stopped
