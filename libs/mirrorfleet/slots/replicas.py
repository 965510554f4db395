"""Which source broker a partition is fetched from: its leader, or a closer replica that it named.

    leader ── "fetch from node n" (KIP-392) ──> node n ── any refusal, or a minute ──> leader
       ^                                          │
       └── for a minute, not told of our rack ────┴── no answer

Only where the cluster has a `rack` in the estate: without one no leader names a replica. A replica
may lag or be cut off, so nothing is concluded from what it refuses: the leader is asked again, and
losses are judged by leaders alone (`healing.examine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.withheld import FOLLOWER
from mirrorfleet.slots.leaders import LeaderAt

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner

ASK_AGAIN_S: Final = 60.0
"""The leader is asked again this often: only it knows that a replica has fallen behind."""
REFUSED_S: Final = 0.1
"""After a refusal of a replica the partition is left out of fetches this long."""


def leader_of(runner: SlotRunner, partition: CopyPartition) -> LeaderAt | None:
    """Who leads it at the source, as far as known."""
    return runner.sources.of(partition.entry.source_topic, partition.identity.partition)


def fetched_from(runner: SlotRunner, partition: CopyPartition, now: float) -> LeaderAt | None:
    """The broker to fetch from, with the leader's epoch; None while there is no leader."""
    leader = leader_of(runner, partition)
    if leader is None or partition.replica is None:
        return leader
    if now >= partition.replica_until:
        partition.replica = None
        return leader
    return LeaderAt(partition.replica, leader.epoch)


def epoch_of(partition: CopyPartition, at: LeaderAt) -> int:
    """The leader's epoch in which a broker was asked; of a replica nothing is sure."""
    return FOLLOWER if partition.replica == at.node else at.epoch


def prefer(runner: SlotRunner, partition: CopyPartition, node: int, now: float) -> None:
    """Do as the leader says: fetch from a replica for a while."""
    if now < partition.leader_until:
        partition.held_until = now + REFUSED_S  # it was asked before, or names one whatever we say
        return
    partition.replica = node
    partition.replica_until = now + ASK_AGAIN_S
    runner.reroute()


def refused(runner: SlotRunner, partition: CopyPartition, node: int, now: float) -> bool:
    """Whether it was a replica that refused; then the leader is asked, and nothing concluded."""
    if partition.replica != node:
        return False
    partition.replica = None
    partition.held_until = now + REFUSED_S
    runner.sources.ask()
    runner.reroute()
    return True


def leave(runner: SlotRunner, node: int) -> None:
    """A broker does not answer: what was fetched from it as a replica goes back to leaders, which
    would name it again as long as it answers them.
    """
    until = runner.clock.monotonic() + ASK_AGAIN_S
    for partition in runner.slot.partitions.values():
        if partition.replica == node:
            partition.replica, partition.leader_until = None, until
    runner.reroute()


def rack_told(runner: SlotRunner, node: int) -> str:
    """What a broker is told of where we are: nothing while it would name one that does not answer.

    A request tells it for all partitions; others of this leader do without a replica meanwhile.
    """
    rack, now = runner.source.settings.rack or "", runner.clock.monotonic()
    for partition in runner.slot.partitions.values() if rack else ():
        if now < partition.leader_until:
            at = fetched_from(runner, partition, now)
            if at is not None and at.node == node:
                return ""
    return rack
