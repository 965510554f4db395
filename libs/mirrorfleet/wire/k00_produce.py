"""Produce (API key 0), versions 9 to 13: requests written, answers read. Sans-IO.

    v9        flexible (KIP-482)
    v10       current leader in a partition's answer (KIP-951), as a tagged field
    v11       last version with transactions v1: the client adds partitions itself
    v12       transactions v2: the broker adds the partition (KIP-890)
    v13       topics by id instead of by name (KIP-516)

Payloads are never copied: a request is a list of parts, and a part may be a view into the fetch
answer that it came from. Source: ProduceRequest.json and ProduceResponse.json of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.core.ids import TopicId
from mirrorfleet.core.primitives import (
    NO_TAGS,
    compact_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    uvarint,
)
from mirrorfleet.wire.topic_refs import (
    FIRST_WITH_TOPIC_IDS,
    Leader,
    TopicRef,
    encode_topic,
    read_topic,
    topic_key,
)

__all__ = ["API_KEY", "FIRST_WITH_TOPIC_IDS", "Leader", "ProduceAck", "ProduceEntry", "TopicRef"]

API_KEY: Final = 0
MIN_VERSION: Final = 9
LAST_V1_TRANSACTIONS: Final = 11
MAX_VERSION: Final = 13

Part = bytes | memoryview
"""A piece of a request; the transport writes the pieces one after the other."""

_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hi")
_ANSWER: Final = struct.Struct(">ihqqq")
_LEADER: Final = struct.Struct(">ii")


class ProduceEntry(NamedTuple):
    """One batch for one partition: `header` (61 bytes), then `payload`.

    `topic_id` may be `NO_TOPIC_ID` below v13.
    """

    topic: str
    topic_id: TopicId
    partition: int
    header: bytes
    payload: memoryview | bytes


class ProduceAck(NamedTuple):
    """What the broker said about one partition of a Produce request."""

    topic: str
    partition: int
    error: ErrorCode
    base_offset: int
    """Offset of the first record on the target; -1 when nothing was appended."""
    log_append_time: int
    """Milliseconds, when the topic is LogAppendTime; else -1."""
    log_start_offset: int
    message: str | None
    record_errors: tuple[tuple[int, str], ...]
    """(index in the batch, message) of the records that made the broker refuse all (KIP-467)."""
    current_leader: Leader | None


def encode_head(transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    """The part of a request before its topics; the same for all requests of a producer."""
    return compact_string(transactional_id) + _HEAD.pack(acks, timeout_ms)


class Topics:
    """The topics of a producer's requests in one version, remembered from request to request."""

    __slots__ = ("_encoded", "names", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.names: dict[bytes, TopicRef] = {}
        """By `topic_key`: to read answers with."""
        self._encoded: dict[str, tuple[TopicId, bytes]] = {}

    def encode(self, topic: str, topic_id: TopicId) -> bytes:
        """How a request names the topic. Raises: ValueError when an id is needed and absent."""
        known = self._encoded.get(topic)
        if known is not None and (known[0] is topic_id or known[0] == topic_id):
            return known[1]
        ref = TopicRef(topic, topic_id)
        encoded = encode_topic(self.version, ref)
        self._encoded[topic] = (topic_id, encoded)
        self.names[topic_key(self.version, ref)] = ref
        return encoded


def encode_produce(topics: Topics, head: bytes, entries: Sequence[ProduceEntry]) -> list[Part]:
    """The parts of a request body; payloads are passed through as they are.

    Raises: ValueError when v13 has no topic id, or when a partition is listed twice: the broker
    keeps a request in a map by partition, so the first of the two would be lost silently
    (KafkaApis.handleProduceRequest).
    """
    by_topic: dict[str | TopicId, list[ProduceEntry]] = {}
    has_ids = topics.version >= FIRST_WITH_TOPIC_IDS
    for entry in entries:
        # one name may stand for a topic and for the one that was made in its place
        by_topic.setdefault(entry.topic_id if has_ids else entry.topic, []).append(entry)
    parts: list[Part] = []
    pending = head + uvarint(len(by_topic) + 1)
    for listed in by_topic.values():
        topic, topic_id = listed[0].topic, listed[0].topic_id
        _refuse_repeats(topic, listed)
        pending += topics.encode(topic, topic_id) + uvarint(len(listed) + 1)
        for _, _, partition, header, payload in listed:
            size = uvarint(len(header) + len(payload) + 1)
            parts.append(pending + _INT32.pack(partition) + size + header)
            parts.append(payload)
            pending = NO_TAGS
        pending += NO_TAGS
    parts.append(pending + NO_TAGS)
    return parts


def _refuse_repeats(topic: str, entries: Sequence[ProduceEntry]) -> None:
    if len(entries) > 1 and len({entry.partition for entry in entries}) < len(entries):
        raise ValueError(f"a partition of {topic} is listed twice in one Produce request")


def decode_produce(
    version: int, buffer: bytes | bytearray, position: int, names: Mapping[bytes, TopicRef]
) -> tuple[list[ProduceAck], int]:
    """The answer's acks, in the broker's order, and its throttle time in milliseconds.

    Raises: IndexError, ValueError, struct.error on bytes that are no answer.
    """
    acks: list[ProduceAck] = []
    topic_count, position = read_uvarint(buffer, position)
    for _ in range(topic_count - 1):
        ref, position = read_topic(version, buffer, position, names)
        count, position = read_uvarint(buffer, position)
        for _ in range(count - 1):
            ack, position = _read_ack(buffer, position, ref.topic)
            acks.append(ack)
        position = skip_tags(buffer, position)
    return acks, int(_INT32.unpack_from(buffer, position)[0])


def _read_ack(buffer: bytes | bytearray, position: int, topic: str) -> tuple[ProduceAck, int]:
    """One partition of an answer.

    index i32 | error i16 | base offset i64 | append time i64 | log start i64
    | record errors | message | tags {0: leader id i32, leader epoch i32}
    """
    partition, error, base, append_time, start = _ANSWER.unpack_from(buffer, position)
    position += 30
    code = error_code(error) if error else ErrorCode.NONE
    if buffer[position : position + 3] == b"\1\0\0":  # no record error, no message, no tag
        plain = (topic, partition, code, base, append_time, start, None, (), None)
        return tuple.__new__(ProduceAck, plain), position + 3  # half of the time: one a batch
    record_errors, position = _read_record_errors(buffer, position)
    message, position = read_compact_string(buffer, position)
    leader, position = _read_leader(buffer, position)
    told = (message, record_errors, leader)
    return ProduceAck(topic, partition, code, base, append_time, start, *told), position


def _read_record_errors(
    buffer: bytes | bytearray, position: int
) -> tuple[tuple[tuple[int, str], ...], int]:
    count, position = read_uvarint(buffer, position)
    found: list[tuple[int, str]] = []
    for _ in range(count - 1):
        (index,) = _INT32.unpack_from(buffer, position)
        text, position = read_compact_string(buffer, position + 4)
        position = skip_tags(buffer, position)
        found.append((index, text or ""))
    return tuple(found), position


def _read_leader(buffer: bytes | bytearray, position: int) -> tuple[Leader | None, int]:
    leader = None
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag == 0:
            node_id, epoch = _LEADER.unpack_from(buffer, position)
            leader = Leader(node_id, epoch) if node_id >= 0 else None
        position += size
    return leader, position
