"""What is stored in a partition: batches and committed records, read once up to an end.

For commands and for the map, not for copying: one batch at a time, headers verified. Who has read
it may delete what was read, so an end is never guessed:

    answer without batches                 what it means
    it has a throttle time                 nothing: a quota takes all out (KafkaApis.handleFetch)
    its last stable offset is the end      compaction took the rest, if it is said again and again:
                                           a remote tier that is slow answers so, too
    its last stable offset is before it    a new leader does not know yet how far others are
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.each import Results
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchLane, FetchPoint
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.wire.aborted import Marker
from mirrorfleet.wire.batch import BatchHeader
from mirrorfleet.wire.decided import decided
from mirrorfleet.wire.records import Record, records_of

_MAX_BYTES: Final = 4 * 1024 * 1024
_WAIT_MS: Final = 200
_EMPTY: Final = 3
"""So many empty answers in a row are believed, ..."""
_EMPTY_S: Final = 0.7
"""... with this between them: brokers wait 0.5 s for a remote tier (remote.fetch.max.wait.ms)."""


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


Bounds = tuple[int, int]
"""Log start and last stable offset of a partition."""


async def bounds_that_are_told(
    cluster: Cluster,
    topic: TopicMeta,
    numbers: Collection[int] | None = None,
    *,
    deadline_s: float | None = None,
) -> Results[int, Bounds]:
    """Of some partitions, or of all; or why a leader does not tell. Raises: as `list_offsets`."""
    wanted = topic.partitions if numbers is None else numbers
    tps = [TopicPartition(topic.name, number) for number in sorted(wanted)]
    first = await list_offsets(cluster, dict.fromkeys(tps, EARLIEST), deadline_s=deadline_s)
    told = [tp for tp in tps if not isinstance(first[tp], BrokerError)]
    last = await list_offsets(cluster, dict.fromkeys(told, LATEST), deadline_s=deadline_s)
    found: Results[int, Bounds] = {}
    for tp in tps:
        start, end = first[tp], last.get(tp)
        if isinstance(start, BrokerError):
            found[tp.partition] = start
        elif isinstance(end, BrokerError):
            found[tp.partition] = end
        elif end is not None:
            found[tp.partition] = (start.offset, end.offset)
    return found


async def stored_batches(
    cluster: Cluster, topic: TopicMeta, partition: int, start: int, end: int
) -> AsyncGenerator[StoredBatch, None]:
    """Batches from the one that holds `start`, all up to `end`, a last stable offset of before.

    Raises: BrokerError of the partition, CorruptBatchError, connection errors; DeadlineError when
    nothing comes for the cluster's request time-out though the end is not reached.
    """
    leader = await cluster.leader(TopicPartition(topic.name, partition))
    connection = await cluster.connect(leader.node_id, purpose="read")
    lane = FetchLane(connection, deadline_s=cluster.settings.request_timeout_s)
    what = f"{cluster.name}: {topic.name}-{partition}"
    try:
        at, stable, empty = start, -1, 0
        attempts = _attempts(cluster, what)
        while at < end:
            lane.want(
                FetchPoint(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition=partition,
                    offset=at,
                    leader_epoch=leader.leader_epoch,
                    max_bytes=_MAX_BYTES,
                )
            )
            fetched = await lane.fetch(max_bytes=_MAX_BYTES, max_wait_ms=_WAIT_MS)
            part = _answer_of(fetched, topic.name, partition)
            stable = stable if part is None else part.last_stable_offset
            before = at
            for seen in _walk(fetched, part, at):
                at = seen.header.next_offset
                yield seen
            if at > before:
                attempts, empty = _attempts(cluster, what), 0
            elif stable >= end and not fetched.throttle_ms:
                empty += 1
                if empty == _EMPTY:
                    return
                await asyncio.sleep(_EMPTY_S)
            else:
                await attempts.pause(Exception(f"nothing came from {at} on, wanted up to {end}"))
    finally:
        lane.close()


def _attempts(cluster: Cluster, what: str) -> Attempts:
    return Attempts(what, cluster.settings.request_timeout_s, cluster.dice)


def _answer_of(fetched: Fetched, topic: str, partition: int) -> FetchedPartition | None:
    for part in fetched.partitions:
        if part.error is not ErrorCode.NONE:
            raise BrokerError(part.error, f"Fetch of {topic}-{partition}", hint="Try again.")
        return part
    return None


def _walk(fetched: Fetched, part: FetchedPartition | None, asked: int) -> list[StoredBatch]:
    if part is None:
        return []
    found = decided(fetched.buffer, part.start, part.end, part.aborted, asked)
    return [StoredBatch(*one, fetched.buffer) for one in found]


async def first_committed(cluster: Cluster, at: TopicPartition, start: int, end: int) -> int | None:
    """The first committed record from `start` on, None when there is none before `end`.

    `end` is a last stable offset of before. Raises: as `stored_batches`.
    """
    topic = await cluster.topic(at.topic, refresh=True)
    async with aclosing(stored_batches(cluster, topic, at.partition, start, end)) as batches:
        async for seen in batches:
            if not seen.header.is_control and not seen.aborted:
                return max(start, seen.header.base_offset)
    return None


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
