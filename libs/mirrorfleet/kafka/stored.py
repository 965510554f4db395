"""What is stored in a partition: batches and committed records, read once up to an end.

For commands, not for copying: one batch at a time, headers verified.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.fetcher import (
    Fetched,
    FetchedPartition,
    FetchLane,
    FetchPoint,
    Isolation,
)
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.wire.aborted import AbortedFilter, Marker, marker_of
from mirrorfleet.wire.batch import BatchHeader, verify, walk
from mirrorfleet.wire.records import Record, records_of

_MAX_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it is stored. `marker` is NONE unless it is a control batch."""

    header: BatchHeader
    marker: Marker
    aborted: bool
    buffer: bytes | bytearray

    def records(self) -> list[Record]:
        """Its records. Raises: CorruptBatchError."""
        return list(records_of(self.buffer, self.header))


async def partition_bounds(cluster: Cluster, topic: TopicMeta) -> Mapping[int, tuple[int, int]]:
    """(log start, high watermark) of each partition; raises the first partition's BrokerError."""
    tps = [TopicPartition(topic.name, number) for number in sorted(topic.partitions)]
    uncommitted = Isolation.READ_UNCOMMITTED
    first = await list_offsets(cluster, dict.fromkeys(tps, EARLIEST), isolation=uncommitted)
    last = await list_offsets(cluster, dict.fromkeys(tps, LATEST), isolation=uncommitted)
    found: dict[int, tuple[int, int]] = {}
    for tp in tps:
        start, end = first[tp], last[tp]
        if isinstance(start, BrokerError):
            raise start
        if isinstance(end, BrokerError):
            raise end
        found[tp.partition] = (start.offset, end.offset)
    return found


async def stored_batches(
    cluster: Cluster, topic: TopicMeta, partition: int, start: int, end: int
) -> AsyncGenerator[StoredBatch, None]:
    """Batches from the one that holds `start`, up to `end` or the last stable offset.

    Raises: BrokerError of the partition, CorruptBatchError, connection errors.
    """
    leader = await cluster.leader(TopicPartition(topic.name, partition))
    lane = FetchLane(await cluster.connect(leader.node_id, purpose="read"))
    try:
        at = start
        while at < end:
            point = FetchPoint(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=partition,
                offset=at,
                leader_epoch=leader.leader_epoch,
                max_bytes=_MAX_BYTES,
            )
            lane.want(point)
            fetched = await lane.fetch(max_bytes=_MAX_BYTES, max_wait_ms=200)
            part = _answer_of(fetched, topic.name, partition)
            before = at
            for seen in _walk(fetched, part):
                at = seen.header.next_offset
                yield seen
            if at == before:
                return
    finally:
        lane.close()


def _answer_of(fetched: Fetched, topic: str, partition: int) -> FetchedPartition | None:
    for part in fetched.partitions:
        if part.error is not ErrorCode.NONE:
            raise BrokerError(part.error, f"Fetch of {topic}-{partition}", hint="Try again.")
        return part
    return None


def _walk(fetched: Fetched, part: FetchedPartition | None) -> list[StoredBatch]:
    if part is None:
        return []
    covered = AbortedFilter(part.aborted)
    found: list[StoredBatch] = []
    for header in walk(fetched.buffer, part.start, part.end):
        verify(fetched.buffer, header)
        marker, aborted = Marker.NONE, covered.covers(header)
        if header.is_control:
            marker = marker_of(memoryview(fetched.buffer), header)
            covered.end(header.producer_id)
        found.append(StoredBatch(header, marker, aborted, fetched.buffer))
    return found


async def committed_records(
    cluster: Cluster, topic: TopicMeta, partition: int, start: int, end: int
) -> AsyncGenerator[Record, None]:
    """Records that a read_committed consumer gets."""
    async for seen in stored_batches(cluster, topic, partition, start, end):
        if not seen.header.is_control and not seen.aborted:
            for record in seen.records():
                if record.offset >= start:
                    yield record


def header_row(number: int, seen: StoredBatch) -> dict[str, object]:
    """A batch of partition `number` for people."""
    header = seen.header
    return {
        "partition": number,
        "first": header.base_offset,
        "last": header.last_offset,
        "records": header.count,
        "bytes": header.size,
        "codec": header.codec.name.lower(),
        "txn": transaction_word(seen),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "leader_epoch": header.leader_epoch,
        "time_type": "append" if header.is_log_append_time else "create",
        "max_time_ms": header.max_timestamp,
        "magic": header.magic,
    }


def transaction_word(seen: StoredBatch) -> str:
    """What the batch is in a transaction, in a word or two."""
    if seen.header.is_control:
        names = {Marker.COMMIT: "commit marker", Marker.ABORT: "abort marker"}
        return names.get(seen.marker, "control")
    if seen.aborted:
        return "aborted"
    return "yes" if seen.header.is_transactional else "no"
