"""Identities: what a cluster, a partition, a slot and an offset are.

Only names live here. Source and target offsets are different types, because mixing them is
the one mistake that a mirror can make silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType
from uuid import UUID

SourceOffset = NewType("SourceOffset", int)
"""An offset in a partition of the source cluster."""

TargetOffset = NewType("TargetOffset", int)
"""An offset in a partition of the target cluster."""

ClusterAlias = NewType("ClusterAlias", str)
"""The operator's name of a cluster; may change. Identity is the `ClusterId`."""

ClusterId = NewType("ClusterId", str)
"""Kafka's own cluster.id: what a cluster is, whatever it is called."""

FleetName = NewType("FleetName", str)
"""Name of the services that serve one target cluster; part of control topic names."""

SlotNumber = NewType("SlotNumber", int)
"""Number of a slot: unique in a fleet, and the partition of the slot's control topics."""

TopicId = UUID
"""Kafka's topic id (KIP-516): differs after a topic is deleted and created again."""

NO_TOPIC_ID = UUID(int=0)


class TopicPartition(NamedTuple):
    """A partition by topic name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Link(NamedTuple):
    """One source cluster copied into one target cluster."""

    source: ClusterAlias
    target: ClusterAlias

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch; sequences start at 0 in each epoch (KIP-98, KIP-890)."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, order=True)
class PartitionIdentity:
    """What a copied partition *is*, so that a recreated topic never continues an old history.

    `incarnation` grows when either topic id or the source's lineage changes.
    """

    source_cluster: ClusterId
    source_topic_id: TopicId
    partition: int
    target_topic_id: TopicId
    incarnation: int = 0
