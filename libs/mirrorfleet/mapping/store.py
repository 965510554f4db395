"""Segments and archive of a fleet, slot by slot, as they are stored on the target cluster.

Reads are from the leaders, committed, up to an end that is asked for first; a log start that moves
away under a read raises OFFSET_OUT_OF_RANGE, so no record is ever jumped over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, SlotNumber, TopicPartition
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.offsets import delete_records, log_bounds
from mirrorfleet.kafka.stored import committed_records
from mirrorfleet.offsets.packing import segment_weight
from mirrorfleet.records.segments import Segment, decode_segment
from mirrorfleet.records.topics import ControlKind, control_topic

Entry = tuple[bytes, bytes | None]

_A_STEP: Final = 1_000
"""Records and partitions that are decoded without a pause; then the loop serves others."""


class Bounds(NamedTuple):
    """Log start and end (last stable offset) of a control partition."""

    start: int
    end: int


class StoredSegment(NamedTuple):
    """A segment and the offset of its record."""

    offset: int
    segment: Segment


class StoredSegments(NamedTuple):
    """Segments of a stretch of offsets, all of those before `until`."""

    found: list[StoredSegment]
    until: int


class StoredEntry(NamedTuple):
    """A record of the archive and its offset; without a value, its block was removed."""

    offset: int
    key: bytes
    value: bytes | None


class MapStore(Protocol):
    """What packing needs; tests pass one made of lists."""

    async def bounds(self, kind: ControlKind, slot: SlotNumber) -> Bounds:
        """Where the slot's partition of a control topic begins and ends now."""
        ...

    async def segments(
        self, slot: SlotNumber, begin: int, end: int, *, most: int
    ) -> StoredSegments:
        """Committed segments from offset `begin` on; `until` is `end`.

        It is less when runs weigh `most` or more by then (`run_weight`): behind the last segment.
        """
        ...

    def archive(self, slot: SlotNumber, begin: int, end: int) -> AsyncGenerator[StoredEntry, None]:
        """Records of the archive at offsets [begin, end), tombstones too; all are never held."""
        ...

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        """Append to the archive; acknowledged by all in-sync replicas."""
        ...

    async def free(self, slot: SlotNumber, before: int) -> None:
        """Delete the segments below an offset."""
        ...


class KafkaMapStore:
    """A `MapStore` on the fleet's target cluster; raises as the Kafka client does."""

    def __init__(self, cluster: Cluster, fleet: FleetName, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._fleet = fleet
        self._writer = ControlWriter(cluster)

    def close(self) -> None:
        """Close the writer's connections."""
        self._writer.close()

    async def bounds(self, kind: ControlKind, slot: SlotNumber) -> Bounds:
        """See `MapStore`. Raises: BrokerError, UNKNOWN_TOPIC_OR_PARTITION before `sync` made it."""
        at = self._at(kind, slot)
        return Bounds(*await log_bounds(self._cluster, at))

    async def segments(
        self, slot: SlotNumber, begin: int, end: int, *, most: int
    ) -> StoredSegments:
        """See `MapStore`. Raises: UnknownVersionError, CorruptBatchError."""
        at = self._at(ControlKind.SEGMENTS, slot)
        found: list[StoredSegment] = []
        if begin >= end:
            return StoredSegments(found, end)
        topic = await self._cluster.topic(at.topic)
        decoded = weight = 0
        stored = committed_records(self._cluster, topic, at.partition, begin, end)
        async with aclosing(stored) as records:
            async for record in records:
                if record.offset >= end:
                    continue
                one = StoredSegment(record.offset, decode_segment(record.value or b""))
                found.append(one)
                weight += segment_weight(one.segment)
                if weight >= most:
                    return StoredSegments(found, one.offset + 1)
                decoded += 1 + len(one.segment.runs)
                if decoded >= _A_STEP:
                    decoded = 0
                    await asyncio.sleep(0)
        return StoredSegments(found, end)

    async def archive(
        self, slot: SlotNumber, begin: int, end: int
    ) -> AsyncGenerator[StoredEntry, None]:
        """See `MapStore`."""
        at = self._at(ControlKind.ARCHIVE, slot)
        if begin >= end:
            return
        topic = await self._cluster.topic(at.topic)
        stored = committed_records(self._cluster, topic, at.partition, begin, end)
        async with aclosing(stored) as records:
            async for record in records:
                if record.offset < end:
                    yield StoredEntry(record.offset, record.key or b"", record.value)

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        """See `MapStore`."""
        now_ms = self._clock.now_ms()
        await self._writer.write(self._at(ControlKind.ARCHIVE, slot), entries, now_ms)

    async def free(self, slot: SlotNumber, before: int) -> None:
        """See `MapStore`."""
        at = self._at(ControlKind.SEGMENTS, slot)
        answer = (await delete_records(self._cluster, {at: before}))[at]
        if isinstance(answer, BrokerError):
            raise answer

    def _at(self, kind: ControlKind, slot: SlotNumber) -> TopicPartition:
        return TopicPartition(control_topic(self._fleet, kind), slot)
