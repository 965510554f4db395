"""Less urgent backlog does not wait for one that nobody can fetch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.partition import Pace, SourceEnds
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.records.catalog import Priority
from mirrorfleet.slots.arrivals import deliver
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.reach import Reach
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import BIG, entry, fetched, identity, slot


class World:
    """A high and a normal partition that catch up, led by brokers 1 and 2."""

    def __init__(self) -> None:
        self.slot = slot(entry(0, priority=Priority.HIGH), entry(1), urgency=Urgency())
        for partition in self.slot.partitions.values():
            partition.pace = Pace.CATCH_UP
        self.leaders: dict[int, LeaderAt] = {0: LeaderAt(1, 0), 1: LeaderAt(2, 0)}
        self.renewed: list[Callable[[], None]] = []
        sources = SimpleNamespace(
            of=lambda topic, number: self.leaders.get(number), on_change=self.renewed.append
        )
        self.now = 1.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        runner = SimpleNamespace(slot=self.slot, sources=sources, clock=clock)
        self.reach = Reach(cast("SlotRunner", runner))

    def wanted(self) -> list[int]:
        return [each.identity.partition for each in self.slot.wanted(Pace.CATCH_UP, 1.0)]


def test_who_is_less_urgent_waits_for_one_that_can_be_fetched() -> None:
    assert World().wanted() == [0]


def test_nobody_waits_for_one_without_a_leader() -> None:
    world = World()
    del world.leaders[0]
    world.renewed[0]()
    assert world.wanted() == [0, 1]
    world.leaders[0] = LeaderAt(2, 1)
    world.renewed[0]()
    assert world.wanted() == [0]


def test_nobody_waits_for_one_whose_broker_is_out_of_reach() -> None:
    world = World()
    world.reach.lost(1)
    assert world.wanted() == [0, 1]
    world.leaders[0] = LeaderAt(2, 1)
    world.renewed[0]()
    assert world.wanted() == [0]
    world.leaders[0] = LeaderAt(1, 2)
    world.reach.found(1)
    assert world.wanted() == [0]


def test_a_partition_is_away_since_its_broker_was_lost_until_it_is_found() -> None:
    world = World()
    partition = world.slot.partitions[identity(0)]
    world.reach.lost(1)
    world.now = 2.0
    world.reach.lost(1)
    assert (partition.away_since, partition.reachable) == (1.0, False)
    world.reach.found(1)
    assert (partition.away_since, partition.reachable) == (None, True)


def test_a_partition_that_begins_to_catch_up_has_its_lane_started_at_once() -> None:
    made = slot(entry(0))
    partition, rerouted = made.partitions[identity(0)], list[int]()
    runner = SimpleNamespace(
        slot=made,
        clock=SimpleNamespace(monotonic=lambda: 1.0),
        reroute=lambda: rerouted.append(partition.walked_to),
    )
    account = MemoryBudget(1 << 20).account()
    for offset in range(4):
        frame = fetched((offset, [BIG]))
        account.resize(0, len(frame))
        lease = FrameLease(account, len(frame))
        answer = Answer(0, len(frame), SourceEnds(100, 100, 0), ())
        deliver(cast("SlotRunner", runner), partition, frame, answer, lease)
        lease.done()
    assert (partition.pace, rerouted) == (Pace.CATCH_UP, [3])
