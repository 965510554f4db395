"""What was last told of a slot: the end of its `.progress` and `.samples` partitions.

Both are read backwards from their ends by a fixed number of records, because their last records
are what matters, however old they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import FleetName, SlotNumber, TopicPartition
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.kafka.stored import committed_records
from mirrorfleet.lagging.board import Place
from mirrorfleet.records import progress, samples, traces
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.progress import Progress
from mirrorfleet.records.samples import Sample
from mirrorfleet.records.topics import ControlKind

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.wire.records import Record

SAMPLES_EACH: Final = 4
"""Samples a partition; those behind are told more often than those that are idle."""
LEAST_SAMPLES: Final = 500


@dataclass(slots=True)
class LastTold:
    """The newest readable snapshot and where it lies, samples from old to new, and how many were
    not readable.
    """

    snapshot: tuple[Progress, Place] | None = None
    samples: list[Sample] = field(default_factory=list)
    skipped: int = 0


async def last_told(
    cluster: Cluster, fleet: FleetName, slot: SlotNumber, partitions: int, now_ms: int
) -> LastTold:
    """Read it for a slot of that many partitions; a snapshot or sample is as old as its record.

    Raises: BrokerError, connection errors.
    """
    found = LastTold()
    for record in await _last(cluster, fleet, ControlKind.PROGRESS, slot, progress.SNAPSHOTS):
        if traces.is_ours(record.key):
            continue
        snapshot = progress.decode(record.key, record.value, heard_ms=_heard_ms(record, now_ms))
        if isinstance(snapshot, Skipped):
            found.skipped += 1
        else:
            found.snapshot = snapshot, Place(record.offset, record.timestamp)
    most = max(LEAST_SAMPLES, SAMPLES_EACH * partitions)
    for record in await _last(cluster, fleet, ControlKind.SAMPLES, slot, most):
        sample = samples.decode(record.key, record.value, heard_ms=_heard_ms(record, now_ms))
        if isinstance(sample, Skipped):
            found.skipped += 1
        else:
            found.samples.append(sample)
    return found


def _heard_ms(record: Record, now_ms: int) -> int:
    """When it was stored, and not by its writer's clock; the broker's may be ahead of ours."""
    return min(record.timestamp, now_ms)


async def _last(
    cluster: Cluster, fleet: FleetName, kind: ControlKind, slot: SlotNumber, most: int
) -> list[Record]:
    """The last `most` offsets of a slot's partition, or fewer."""
    tp = TopicPartition(control_topic(fleet, kind), slot)
    topic = await cluster.topic(tp.topic)
    first, end = await log_bounds(cluster, tp)
    begin = max(first, end - most)
    return [one async for one in committed_records(cluster, topic, slot, begin, end)]
