"""A replica is fetched from on its leader's word only, and for no longer than it answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from mirrorfleet.copying.partition import CopyPartition
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.replicas import (
    ASK_AGAIN_S,
    fetched_from,
    leave,
    prefer,
    rack_told,
    refused,
)
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import entry, identity, slot

LEADER = LeaderAt(1, 7)


class Runner:
    """Leaders as they are told to be; counts what is asked of it."""

    def __init__(self) -> None:
        self.slot = slot(entry(0), entry(1))
        self.leader: LeaderAt | None = LEADER
        self.asked = self.rerouted = 0
        self.now = 0.0
        self.clock = SimpleNamespace(monotonic=lambda: self.now)
        self.source = SimpleNamespace(settings=SimpleNamespace(rack="a"))
        self.sources = SimpleNamespace(of=lambda _topic, _number: self.leader, ask=self._ask)

    def _ask(self) -> None:
        self.asked += 1

    def reroute(self) -> None:
        self.rerouted += 1


def made() -> tuple[SlotRunner, Runner, CopyPartition]:
    runner = Runner()
    return cast("SlotRunner", runner), runner, runner.slot.partitions[identity(0)]


def test_the_leader_is_fetched_from_until_it_names_a_replica() -> None:
    runner, seen, partition = made()
    assert fetched_from(runner, partition, 0.0) == LEADER
    prefer(runner, partition, 3, 0.0)
    assert fetched_from(runner, partition, 0.1) == LeaderAt(3, 7)
    assert seen.rerouted == 1


def test_the_leader_is_asked_again_after_a_while() -> None:
    runner, _, partition = made()
    prefer(runner, partition, 3, 10.0)
    assert fetched_from(runner, partition, 10.0 + ASK_AGAIN_S - 0.1) == LeaderAt(3, 7)
    assert fetched_from(runner, partition, 10.0 + ASK_AGAIN_S) == LEADER
    assert fetched_from(runner, partition, 10.0) == LEADER


def test_without_a_leader_nothing_is_fetched_from_a_replica_either() -> None:
    runner, seen, partition = made()
    prefer(runner, partition, 3, 0.0)
    seen.leader = None
    assert fetched_from(runner, partition, 0.1) is None


def test_a_refusal_of_a_replica_leads_back_to_the_leader() -> None:
    runner, seen, partition = made()
    prefer(runner, partition, 3, 0.0)
    assert refused(runner, partition, 3, 1.0)
    assert fetched_from(runner, partition, 1.0) == LEADER
    assert partition.held_until == 1.1
    assert seen.asked == 1


def test_a_refusal_of_the_leader_is_not_explained_away() -> None:
    runner, seen, partition = made()
    assert not refused(runner, partition, 1, 1.0)
    prefer(runner, partition, 3, 0.0)
    assert not refused(runner, partition, 1, 1.0)
    assert partition.held_until == 0.0
    assert seen.asked == 0


def test_a_broker_that_is_gone_gives_back_what_was_fetched_from_it() -> None:
    runner, seen, partition = made()
    other = seen.slot.partitions[identity(1)]
    prefer(runner, partition, 3, 0.0)
    prefer(runner, other, 2, 0.0)
    leave(runner, 3)
    assert (partition.replica, other.replica) == (None, 2)


def test_a_leader_is_not_told_the_rack_while_it_would_name_one_that_is_gone() -> None:
    runner, seen, partition = made()
    prefer(runner, partition, 3, 0.0)
    assert rack_told(runner, LEADER.node) == "a"
    leave(runner, 3)
    assert (rack_told(runner, LEADER.node), rack_told(runner, 2)) == ("", "a")
    seen.now = ASK_AGAIN_S
    assert rack_told(runner, LEADER.node) == "a"


def test_what_a_leader_named_before_it_knew_leads_to_none_that_is_gone() -> None:
    runner, seen, partition = made()
    prefer(runner, partition, 3, 0.0)
    leave(runner, 3)
    prefer(runner, partition, 3, 1.0)  # the answer to a request that was on its way
    assert fetched_from(runner, partition, 1.0) == LEADER
    assert partition.held_until == 1.1  # one that names it all the same is not asked at once
    seen.now = ASK_AGAIN_S
    prefer(runner, partition, 3, ASK_AGAIN_S)
    assert fetched_from(runner, partition, ASK_AGAIN_S) == LeaderAt(3, 7)
