"""Reading one control partition from its leader with the wire client, up to a known record.

This is the read behind the barrier of a slot being taken: from the leader, read_committed, with
its epoch in every request, so that a broker that lost the leadership refuses to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchLane, FetchPoint
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets
from mirrorfleet.wire.decided import decided
from mirrorfleet.wire.records import Record, records_of

FETCH_BYTES: Final = 8 << 20
_WAIT_MS: Final = 500


class ControlRecord(NamedTuple):
    """A record of a control topic. `value` is None for a tombstone; a null key is empty."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


class Reading:
    """Where a read of one partition is, across leaders and connections."""

    def __init__(self, tp: TopicPartition, start: int, end: int | None) -> None:
        self.tp = tp
        self.next_offset = start
        self.epoch = -1
        """The leader epoch of the last batch; -1 before any."""
        self._end = end

    @property
    def at_end(self) -> bool:
        """Whether the end asked for is reached."""
        return self._end is not None and self.next_offset >= self._end

    def take(self, fetched: Fetched, found: FetchedPartition) -> Iterator[ControlRecord]:
        """The committed records of an answer, in order; the position moves behind each batch.

        Raises: CorruptBatchError.
        """
        buffer, asked = fetched.buffer, self.next_offset
        for one in decided(buffer, found.start, found.end, found.aborted, asked):
            header = one.header
            if not (header.is_control or one.aborted):
                for record in records_of(buffer, header):
                    if record.offset >= self.next_offset:
                        yield _control_record(self.tp, record)
            self.next_offset = max(self.next_offset, header.next_offset)
            self.epoch = header.leader_epoch


def _control_record(tp: TopicPartition, record: Record) -> ControlRecord:
    key = record.key or b""
    return ControlRecord(tp.topic, tp.partition, record.offset, record.timestamp, key, record.value)


async def read_up_to(
    cluster: Cluster,
    tp: TopicPartition,
    stop: Callable[[ControlRecord], bool],
    *,
    deadline_s: float,
    start_offset: int | None = None,
    end_offset: int | None = None,
) -> None:
    """Show `stop` every committed record from the log's start on, until it says True.

    `start_offset` begins later than the log; with `end_offset` the read also ends there. Leader
    moves and lost connections are followed.

    Raises: DeadlineError when neither came in time; BrokerError (not allowed, unknown topic),
    AuthenticationError, CorruptBatchError, and what `stop` raises.
    """
    attempts = Attempts(f"{cluster.name}: reading {tp}", deadline_s, cluster.dice)
    if start_offset is None:
        start = (await list_offsets(cluster, {tp: EARLIEST}, deadline_s=attempts.left_s))[tp]
        if isinstance(start, BrokerError):
            raise start
        start_offset = start.offset
    reading = Reading(tp, start_offset, end_offset)
    while not reading.at_end:
        try:
            await _read_at_leader(cluster, reading, stop, attempts)
            return
        except (ConnectionLostError, DeadlineError) as error:
            await attempts.pause(error)
        except BrokerError as error:
            if not error.retriable:
                raise
            await attempts.pause(error)
        cluster.forget_leaders(tp.topic)


async def read_below(
    cluster: Cluster, tp: TopicPartition, end: int, *, deadline_s: float = 30.0
) -> list[ControlRecord]:
    """The committed records below an end that this `cluster` has told: of a leader that it knows to
    be replaced nothing is read.

    Raises: as `read_up_to`.
    """
    found: list[ControlRecord] = []

    def take(record: ControlRecord) -> bool:
        found.append(record)
        return False

    await read_up_to(cluster, tp, take, deadline_s=deadline_s, end_offset=end)
    return found


async def _read_at_leader(
    cluster: Cluster, reading: Reading, stop: Callable[[ControlRecord], bool], attempts: Attempts
) -> None:
    """Read until the end or `stop` says so, on one connection. Raises: as `read_up_to`."""
    tp = reading.tp
    leader = await cluster.leader(tp)
    topic = await cluster.topic(tp.topic)
    connection = await cluster.connect(leader.node_id, purpose=f"read {tp}")
    lane = FetchLane(connection, deadline_s=cluster.settings.request_timeout_s)
    try:
        while not reading.at_end:
            attempts.check(f"at offset {reading.next_offset}")
            lane.want(
                FetchPoint(
                    topic=tp.topic,
                    topic_id=topic.topic_id,
                    partition=tp.partition,
                    offset=reading.next_offset,
                    leader_epoch=leader.leader_epoch,
                    max_bytes=FETCH_BYTES,
                )
            )
            fetched = await lane.fetch(max_bytes=FETCH_BYTES, max_wait_ms=_WAIT_MS)
            for found in fetched.partitions:
                if found.error is not ErrorCode.NONE:
                    raise BrokerError(found.error, f"{cluster.name}: reading {tp}")
                if any(map(stop, reading.take(fetched, found))):
                    return
    finally:
        lane.close()
