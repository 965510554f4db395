"""Fetch (API key 1), versions 12 to 18: requests written, answers read. Sans-IO.

    v12       flexible; LastFetchedEpoch, diverging epoch and current leader (KIP-595)
    v13       topics by id instead of by name (KIP-516)
    v15       the replica id is a tagged field: consumers do not send it (KIP-903)
    v16-v18   node endpoints (KIP-951), follower fields: nothing that a consumer sends

Record bytes are never copied: an answer gives byte ranges of the frame. Source:
FetchRequest.json and FetchResponse.json of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.core.ids import TopicId
from mirrorfleet.core.primitives import NO_TAGS, compact_string, read_uvarint, skip_tags, uvarint
from mirrorfleet.wire.copybatch import AbortedTransaction
from mirrorfleet.wire.topic_refs import Leader, TopicRef, encode_topic, read_topic

API_KEY: Final = 1
MIN_VERSION: Final = 12
MAX_VERSION: Final = 18

_NO_REPLICA_ID: Final = 15
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">iiibii")
_POINT: Final = struct.Struct(">iiqiqi")
_TOP: Final = struct.Struct(">ihi")
_PARTITION: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")


class Isolation(IntEnum):
    """Kafka's isolation level."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(slots=True, kw_only=True)
class FetchPoint:
    """What is wanted of one partition next.

    `leader_epoch` is the epoch of the leader that we believe in (-1: do not check);
    `last_fetched_epoch` that of the last walked batch (-1: none), which makes the broker compare
    lineages atomically with the read.
    """

    topic: str
    topic_id: TopicId
    partition: int
    offset: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    max_bytes: int = 1 << 20


class FetchTerms(NamedTuple):
    """The part of a request that is not about partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    session_id: int
    session_epoch: int
    rack: str


class FetchedPartition(NamedTuple):
    """One partition of an answer; its records are `buffer[start:end]`."""

    topic: str
    topic_id: TopicId
    partition: int
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None
    """(epoch, its end offset): what we read is not what the leader has from there on."""
    current_leader: Leader | None
    preferred_replica: int
    """Node to fetch from instead (KIP-392); -1 for none."""
    aborted: list[AbortedTransaction]
    """Complete for this answer; never carried over to the next."""
    start: int
    end: int

    @property
    def is_refused(self) -> bool:
        """Whether it says why there is nothing to read, and nothing of the log as it is."""
        return self.error is not ErrorCode.NONE or self.diverging_epoch is not None


class FetchAnswer(NamedTuple):
    """An answer: `error` is about the session or the whole request."""

    error: ErrorCode
    session_id: int
    throttle_ms: int
    partitions: list[FetchedPartition]


def encode_fetch(
    version: int,
    terms: FetchTerms,
    points: Iterable[FetchPoint],
    forgotten: Iterable[tuple[TopicRef, int]] = (),
) -> bytes:
    """A request body; `points` are the partitions that are new or changed in the session.

    Raises: ValueError when the version names topics by id and one has none.
    """
    head = _HEAD.pack(
        terms.max_wait_ms,
        terms.min_bytes,
        terms.max_bytes,
        terms.isolation,
        terms.session_id,
        terms.session_epoch,
    )
    out = [head if version >= _NO_REPLICA_ID else b"\xff\xff\xff\xff" + head]
    topics: dict[bytes, list[bytes]] = {}
    for point in points:
        name = encode_topic(version, TopicRef(point.topic, point.topic_id))
        topics.setdefault(name, []).append(_encode_point(point))
    _write_topics(out, topics)
    gone: dict[bytes, list[bytes]] = {}
    for ref, partition in forgotten:
        name = encode_topic(version, ref)
        gone.setdefault(name, []).append(_INT32.pack(partition))
    _write_topics(out, gone)
    out.append(compact_string(terms.rack) + NO_TAGS)
    return b"".join(out)


def _write_topics(out: list[bytes], topics: Mapping[bytes, list[bytes]]) -> None:
    out.append(uvarint(len(topics) + 1))
    for name, partitions in topics.items():
        out.append(name + uvarint(len(partitions) + 1))
        out.extend(partitions)
        out.append(NO_TAGS)


def _encode_point(point: FetchPoint) -> bytes:
    """Partition i32, leader epoch i32, offset i64, last epoch i32, -1 i64, max bytes i32, tags."""
    return (
        _POINT.pack(
            point.partition,
            point.leader_epoch,
            point.offset,
            point.last_fetched_epoch,
            -1,
            point.max_bytes,
        )
        + NO_TAGS
    )


def decode_fetch(
    version: int, buffer: bytes | bytearray, position: int, names: Mapping[bytes, TopicRef]
) -> FetchAnswer:
    """An answer body that begins at `position`; `names` are the session's topics by `topic_key`.

    Raises: IndexError, ValueError, struct.error on bytes that are no answer.
    """
    throttle_ms, error, session_id = _TOP.unpack_from(buffer, position)
    partitions: list[FetchedPartition] = []
    topic_count, position = read_uvarint(buffer, position + 10)
    for _ in range(topic_count - 1):
        ref, position = read_topic(version, buffer, position, names)
        count, position = read_uvarint(buffer, position)
        for _ in range(count - 1):
            found, position = _read_partition(buffer, position, ref)
            partitions.append(found)
        position = skip_tags(buffer, position)
    return FetchAnswer(error_code(error), session_id, throttle_ms, partitions)


def _read_partition(
    buffer: bytes | bytearray, position: int, ref: TopicRef
) -> tuple[FetchedPartition, int]:
    """One partition of an answer.

    index i32 | error i16 | high watermark i64 | last stable i64 | log start i64
    | aborted [producer id i64, first offset i64, tags] | preferred replica i32
    | records (length + 1 as varint, bytes) | tags {0: diverging epoch, 1: current leader}
    """
    partition, error, high, stable, log_start = _PARTITION.unpack_from(buffer, position)
    count, position = read_uvarint(buffer, position + 30)
    aborted: list[AbortedTransaction] = []
    for _ in range(count - 1):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(buffer, position)))
        position = skip_tags(buffer, position + 16)
    (preferred,) = _INT32.unpack_from(buffer, position)
    size, start = read_uvarint(buffer, position + 4)
    end = start + size - 1 if size else start
    diverging: tuple[int, int] | None = None
    leader: Leader | None = None
    if buffer[end]:
        diverging, leader, position = _read_partition_tags(buffer, end)
    else:
        position = end + 1
    found = FetchedPartition(
        ref.topic,
        ref.topic_id,
        partition,
        error_code(error) if error else ErrorCode.NONE,
        high,
        stable,
        log_start,
        diverging,
        leader,
        preferred,
        aborted,
        start,
        end,
    )
    return found, position


def _read_partition_tags(
    buffer: bytes | bytearray, position: int
) -> tuple[tuple[int, int] | None, Leader | None, int]:
    diverging: tuple[int, int] | None = None
    leader: Leader | None = None
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag == 0:
            epoch, end_offset = _EPOCH_END.unpack_from(buffer, position)
            diverging = (epoch, end_offset) if end_offset >= 0 else None
        elif tag == 1:
            node_id, leader_epoch = _LEADER.unpack_from(buffer, position)
            leader = Leader(node_id, leader_epoch) if node_id >= 0 else None
        position += size
    return diverging, leader, position
