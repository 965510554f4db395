"""Fetch coding, against kio's own coder for every version that we speak."""

from __future__ import annotations

import datetime as dt
import io
import struct
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.wire.copybatch import AbortedTransaction
from mirrorfleet.wire.k01_fetch import (
    FetchedPartition,
    FetchPoint,
    FetchTerms,
    Isolation,
    decode_fetch,
    encode_fetch,
)
from mirrorfleet.wire.topic_refs import Leader, TopicRef, topic_key

VERSIONS = (12, 13, 14, 15, 16, 17, 18)
ORDERS = TopicRef("orders", UUID("00000000-0000-4000-8000-00000000000a"))
CARTS = TopicRef("carts", UUID("00000000-0000-4000-8000-00000000000b"))
TERMS = FetchTerms(
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=8 << 20,
    isolation=Isolation.READ_COMMITTED,
    session_id=77,
    session_epoch=3,
    rack="eu-1a",
)


def point(ref: TopicRef, partition: int, offset: int, **more: int) -> FetchPoint:
    return FetchPoint(
        topic=ref.topic, topic_id=ref.topic_id, partition=partition, offset=offset, **more
    )


POINTS = [
    point(ORDERS, 0, 1 << 40, leader_epoch=5, last_fetched_epoch=4, max_bytes=1 << 20),
    point(CARTS, 2, 0),
    point(ORDERS, 1, 9, max_bytes=77),
]


def fields(topic: Any, version: int) -> object:
    return topic.topic_id if version >= 13 else topic.topic


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_back_with_an_independent_coder(version: int) -> None:
    raw = encode_fetch(version, TERMS, POINTS, [(CARTS, 9)])

    schema: Any = load_payload_module(1, version, EntityType.request)
    request, size = entity_reader(schema.FetchRequest)(raw, 0)

    assert size == len(raw)
    assert request.max_wait == dt.timedelta(milliseconds=500)
    assert (request.min_bytes, request.max_bytes) == (1, 8 << 20)
    assert (request.isolation_level, request.rack_id) == (1, "eu-1a")
    assert (request.session_id, request.session_epoch) == (77, 3)
    names = [ORDERS.topic_id, CARTS.topic_id] if version >= 13 else ["orders", "carts"]
    assert [fields(topic, version) for topic in request.topics] == names
    partitions = [p for topic in request.topics for p in topic.partitions]
    assert [
        (p.partition, p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch)
        for p in partitions
    ] == [(0, 5, 1 << 40, 4), (1, -1, 9, -1), (2, -1, 0, -1)]
    assert [p.partition_max_bytes for p in partitions] == [1 << 20, 77, 1 << 20]
    assert {p.log_start_offset for p in partitions} == {-1}
    (gone,) = request.forgotten_topics_data
    assert (fields(gone, version), gone.partitions) == (names[1], (9,))


def test_a_request_by_id_needs_the_id() -> None:
    nameless = point(TopicRef("orders", NO_TOPIC_ID), 0, 0)
    with pytest.raises(ValueError, match="needs the topic id of orders"):
        encode_fetch(13, TERMS, [nameless])


def partitions(schema: Any) -> tuple[object, object, object]:
    """Data with an aborted list; a divergence; a moved leader with a preferred replica."""
    shared = {"log_start_offset": 3, "last_stable_offset": 90, "high_watermark": 100}
    data = schema.PartitionData(
        partition_index=0,
        error_code=SchemaErrorCode.none,
        aborted_transactions=(
            schema.AbortedTransaction(producer_id=1 << 33, first_offset=40),
            schema.AbortedTransaction(producer_id=8, first_offset=50),
        ),
        records=b"r" * 200,
        **shared,
    )
    diverged = schema.PartitionData(
        partition_index=1,
        error_code=SchemaErrorCode.none,
        aborted_transactions=None,
        records=None,
        diverging_epoch=schema.EpochEndOffset(epoch=4, end_offset=60),
        **shared,
    )
    moved = schema.PartitionData(
        partition_index=2,
        error_code=SchemaErrorCode.fenced_leader_epoch,
        aborted_transactions=(),
        preferred_read_replica=6,
        records=b"",
        current_leader=schema.LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
        **shared,
    )
    return data, diverged, moved


def answer(version: int) -> bytes:
    """The three partitions, in two topics."""
    schema: Any = load_payload_module(1, version, EntityType.response)
    data, diverged, moved = partitions(schema)
    by_id = version >= 13
    orders = {"topic_id": ORDERS.topic_id} if by_id else {"topic": "orders"}
    carts = {"topic_id": CARTS.topic_id} if by_id else {"topic": "carts"}
    entity = schema.FetchResponse(
        throttle_time=i32Timedelta.parse(dt.timedelta(milliseconds=30)),
        error_code=SchemaErrorCode.none,
        session_id=77,
        responses=(
            schema.FetchableTopicResponse(partitions=(data, diverged), **orders),
            schema.FetchableTopicResponse(partitions=(moved,), **carts),
        ),
    )
    out = io.BytesIO()
    entity_writer(schema.FetchResponse)(out, entity)
    return out.getvalue()


def names(version: int) -> dict[bytes, TopicRef]:
    return {topic_key(version, ref): ref for ref in (ORDERS, CARTS)}


def test_offsets_and_ranges_of_an_answer() -> None:
    raw = b"head." + answer(17)
    found = decode_fetch(17, raw, 5, names(17))
    assert (found.error, found.session_id, found.throttle_ms) == (ErrorCode.NONE, 77, 30)
    aborted = [AbortedTransaction(1 << 33, 40), AbortedTransaction(8, 50)]
    first, second, third = found.partitions
    start = raw.index(b"rrr")
    assert first == FetchedPartition(
        *ORDERS, 0, ErrorCode.NONE, 100, 90, 3, None, None, -1, aborted, start, start + 200
    )
    assert second[:11] == (*ORDERS, 1, ErrorCode.NONE, 100, 90, 3, (4, 60), None, -1, [])
    assert second.start == second.end
    assert third[:8] == (*CARTS, 2, ErrorCode.FENCED_LEADER_EPOCH, 100, 90, 3, None)
    assert third[8:11] == (Leader(2, 9), 6, [])
    assert third.start == third.end


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_an_answer_says_the_same(version: int) -> None:
    raw = answer(version)
    found = decode_fetch(version, raw, 0, names(version))
    shown = [
        (p.topic, p.partition, p.error, len(p.aborted), raw[p.start : p.end])
        for p in found.partitions
    ]
    assert shown == [
        ("orders", 0, ErrorCode.NONE, 2, b"r" * 200),
        ("orders", 1, ErrorCode.NONE, 0, b""),
        ("carts", 2, ErrorCode.FENCED_LEADER_EPOCH, 0, b""),
    ]


def test_a_topic_that_we_do_not_know_keeps_what_the_broker_sent() -> None:
    by_id = decode_fetch(17, answer(17), 0, {}).partitions[0]
    assert (by_id.topic, by_id.topic_id) == ("", ORDERS.topic_id)
    by_name = decode_fetch(12, answer(12), 0, {}).partitions[0]
    assert (by_name.topic, by_name.topic_id) == ("orders", NO_TOPIC_ID)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_cut_short_is_an_error_and_not_a_short_list(version: int) -> None:
    raw = answer(version)
    for end in range(len(raw) - 1):
        with pytest.raises((IndexError, ValueError, struct.error)):
            decode_fetch(version, raw[:end], 0, names(version))
