"""Which source broker a partition is fetched from: its leader, or a closer replica that it named.

    leader ── "fetch from node n" (KIP-392) ──> node n ── any refusal, or a minute ──> leader

Only where the cluster has a `rack` in the estate: without one no leader names a replica. A replica
may lag or be cut off, so nothing is concluded from what it refuses: the leader is asked again, and
losses are judged by leaders alone (`healing.examine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.slots.leaders import LeaderAt

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner

ASK_AGAIN_S: Final = 60.0
"""The leader is asked again this often: only it knows that a replica has fallen behind."""
REFUSED_S: Final = 0.1
"""After a refusal of a replica the partition is left out of fetches this long."""


def fetched_from(runner: SlotRunner, partition: CopyPartition, now: float) -> LeaderAt | None:
    """The broker to fetch from, with the leader's epoch; None while there is no leader."""
    leader = runner.sources.of(partition.entry.source_topic, partition.identity.partition)
    if leader is None or partition.replica is None:
        return leader
    if now >= partition.replica_until:
        partition.replica = None
        return leader
    return LeaderAt(partition.replica, leader.epoch)


def prefer(runner: SlotRunner, partition: CopyPartition, node: int, now: float) -> None:
    """Do as the leader says: fetch from a replica for a while."""
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
    """A broker does not answer: what was fetched from it as a replica goes back to leaders."""
    for partition in runner.slot.partitions.values():
        if partition.replica == node:
            partition.replica = None
    runner.reroute()
