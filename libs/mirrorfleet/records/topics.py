"""The control topics of a fleet: names, partitions, cleanup. All on the fleet's target cluster.

Replication factor and min ISR are the cluster's matter: exactly
once needs 3 and 2; a smaller cluster gets what it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber, TopicPartition
from mirrorfleet.core.names import CONTROL_PREFIX, control_topic
from mirrorfleet.records import checkpoint, heartbeat, offset_sync

__all__ = [
    "CONTROL_PREFIX",
    "OF_A_COMMIT",
    "ControlKind",
    "TopicSpec",
    "control_kind",
    "control_of",
    "control_topic",
    "control_topics",
    "durability",
    "heartbeat_topic",
    "mm2_topics",
    "replicas_on",
    "without_partition",
]

FULL_REPLICATION: Final = 3
"""With two of them in sync a record survives the loss of any broker."""
_DAY_MS: Final = 24 * 3600 * 1000


class ControlKind(StrEnum):
    """The last part of a control topic's name."""

    CATALOG = "catalog"
    POSITIONS = "positions"
    SEGMENTS = "segments"
    ARCHIVE = "archive"
    REGISTRY = "registry"
    COMMANDS = "commands"
    EVENTS = "events"
    PROGRESS = "progress"
    SAMPLES = "samples"
    REPORTS = "reports"
    SLOTS = "slots"


OF_A_COMMIT: Final = (ControlKind.POSITIONS, ControlKind.SEGMENTS)
"""What each commit of a slot writes to beside the data, in the partition of its number."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to be created: partitions, replication factor, configs (Kafka's names)."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


_COMPACT: Final = {"cleanup.policy": "compact"}
_LARGE: Final = str(8 * 1024 * 1024)
_SMALL: Final = str(16 * 1024 * 1024)
# Positions grow by a record a partition and transaction: small segments and an early cleaner keep
# what a new owner must read short. Tombstones and markers only matter for a minute.
_SMALL_COMPACT: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": _SMALL,
    "delete.retention.ms": "60000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(3600 * 1000),
}


SAMPLES_DAYS: Final = 7
"""For so long samples are kept: what is longer ago nobody can judge any more."""


def _keep(days: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(days * _DAY_MS)}


_CONFIGS: Final[Mapping[ControlKind, Mapping[str, str]]] = {
    ControlKind.CATALOG: _COMPACT,
    # A snapshot is one batch of all positions of a slot, those of removed partitions too.
    ControlKind.POSITIONS: {**_SMALL_COMPACT, "max.message.bytes": _LARGE},
    # Freed only after packing, by DeleteRecords. One record holds a whole transaction's runs.
    ControlKind.SEGMENTS: {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": _LARGE,
    },
    # Small segments, since a block that grows leaves what it was behind, and the active segment is
    # never cleaned. No largest lag: nothing bounds the archive, and a cleaner copies all of it.
    ControlKind.ARCHIVE: {
        **_COMPACT,
        "segment.bytes": _SMALL,
        "min.cleanable.dirty.ratio": "0.1",
        "max.message.bytes": _LARGE,
    },
    ControlKind.REGISTRY: _COMPACT,
    ControlKind.COMMANDS: _keep(90),
    ControlKind.EVENTS: _keep(90),
    ControlKind.PROGRESS: {**_SMALL_COMPACT, "max.message.bytes": _LARGE},
    ControlKind.SAMPLES: _keep(SAMPLES_DAYS),
    ControlKind.REPORTS: _COMPACT,
    ControlKind.SLOTS: {"cleanup.policy": "delete"},
}

_PER_SLOT: Final = frozenset(
    {
        ControlKind.POSITIONS,
        ControlKind.SEGMENTS,
        ControlKind.ARCHIVE,
        ControlKind.PROGRESS,
        ControlKind.SAMPLES,
        ControlKind.SLOTS,
    }
)


def control_of(fleet: FleetName, slot: SlotNumber) -> list[TopicPartition]:
    """Where the positions and the segments of a slot are."""
    return [TopicPartition(control_topic(fleet, kind), slot) for kind in OF_A_COMMIT]


def control_topics(fleet: FleetName, *, slots: int, replication_factor: int) -> list[TopicSpec]:
    """Every control topic of a fleet with `slots` slots (slot number = partition)."""
    return [
        TopicSpec(
            name=control_topic(fleet, kind),
            partitions=slots if kind in _PER_SLOT else 1,
            replication_factor=replication_factor,
            configs={**_durable(replication_factor), **configs},
        )
        for kind, configs in _CONFIGS.items()
    ]


def mm2_topics(source: ClusterAlias, *, replication_factor: int) -> list[TopicSpec]:
    """The topics that an MM2 or its MirrorClient reads: one partition, compacted, never more.

    Created as MM2 does, with cleanup.policy and nothing else.
    """
    names = (offset_sync.topic_name(source), checkpoint.topic_name(source))
    links = [TopicSpec(name, 1, replication_factor, dict(_COMPACT)) for name in names]
    return [*links, heartbeat_topic(replication_factor=replication_factor)]


def heartbeat_topic(*, replication_factor: int) -> TopicSpec:
    """The one of them that all links share."""
    return TopicSpec(heartbeat.TOPIC, 1, replication_factor, dict(_COMPACT))


def replicas_on(brokers: int) -> int:
    """The replication factor of our topics on a cluster of so many brokers."""
    return min(FULL_REPLICATION, brokers)


def control_kind(topic: str) -> tuple[FleetName, ControlKind] | None:
    """Fleet and kind for a control topic's name; None when it is none."""
    fleet, _, last = topic.removeprefix(CONTROL_PREFIX).rpartition(".")
    if not topic.startswith(CONTROL_PREFIX) or not fleet or last not in set(ControlKind):
        return None
    return FleetName(fleet), ControlKind(last)


def without_partition(name: str) -> str:
    """TOPIC of TOPIC-PARTITION."""
    return re.sub(r"-\d+$", "", name)


def durability(replication_factor: int) -> str:
    """What an acknowledged record survives, in words; 0 copies: not known yet."""
    match replication_factor:
        case 0:
            return "unknown"
        case 1:
            return "one copy: a lost disk loses records; use three brokers"
        case 2:
            return "two copies, one needed: a crash of both may lose records; use three brokers"
    return "three copies, two needed"


def least_in_sync(replicas: int) -> int:
    """So many must be in sync for a partition of our topics to take anything."""
    return 2 if replicas >= 3 else 1


def _durable(replication_factor: int) -> dict[str, str]:
    """What keeps an acknowledged record: a majority has it, and no stale replica may lead.

    The broker stamps: one of 4.x refuses what a worker's clock dates more than an hour ahead of its
    own (KIP-937), and the slots of that worker would stand still.
    """
    return {
        "min.insync.replicas": str(least_in_sync(replication_factor)),
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
    }
