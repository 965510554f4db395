"""Produce coding, against kio's own coder for every version that we speak."""

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
from mirrorfleet.wire.k00_produce import (
    ProduceAck,
    ProduceEntry,
    Topics,
    decode_produce,
    encode_head,
    encode_produce,
)
from mirrorfleet.wire.topic_refs import Leader, TopicRef

VERSIONS = (9, 10, 11, 12, 13)
ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
CARTS = UUID("00000000-0000-4000-8000-00000000000b")
HEADER = b"h" * 61


def entry(topic: str, topic_id: UUID, partition: int, payload: bytes | memoryview) -> ProduceEntry:
    return ProduceEntry(topic, topic_id, partition, HEADER, payload)


ENTRIES = [
    entry("orders", ORDERS, 0, b"zero"),
    entry("carts", CARTS, 5, b""),
    entry("orders", ORDERS, 7, b"s" * 300),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_back_with_an_independent_coder(version: int) -> None:
    head = encode_head("mirrorfleet.west.east.3", -1, 5000)
    raw = b"".join(encode_produce(Topics(version), head, ENTRIES))

    schema: Any = load_payload_module(0, version, EntityType.request)
    request, size = entity_reader(schema.ProduceRequest)(raw, 0)

    assert size == len(raw)
    assert request.transactional_id == "mirrorfleet.west.east.3"
    assert request.acks == -1
    assert request.timeout == dt.timedelta(seconds=5)
    names = (ORDERS, CARTS) if version >= 13 else ("orders", "carts")
    found = [t.topic_id if version >= 13 else t.name for t in request.topic_data]
    assert found == list(names)
    assert [(p.index, p.records) for t in request.topic_data for p in t.partition_data] == [
        (0, HEADER + b"zero"),
        (7, HEADER + b"s" * 300),
        (5, HEADER),
    ]


def test_a_request_without_transaction_has_no_transactional_id() -> None:
    assert encode_head(None, 1, 1) == b"\0" + b"\0\1" + b"\0\0\0\1"


def test_payloads_are_passed_through_uncopied() -> None:
    payload = memoryview(bytearray(b"a big one"))
    parts = encode_produce(Topics(12), b"", [entry("orders", ORDERS, 0, payload)])
    assert parts[1] is payload


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_listed_twice_is_refused(version: int) -> None:
    twice = [entry("orders", ORDERS, 3, b"one"), entry("orders", ORDERS, 3, b"two")]
    with pytest.raises(ValueError, match="partition of orders is listed twice"):
        encode_produce(Topics(version), b"", twice)


def test_a_request_by_id_needs_the_id() -> None:
    with pytest.raises(ValueError, match="needs the topic id of orders"):
        encode_produce(Topics(13), b"", [entry("orders", NO_TOPIC_ID, 0, b"")])


def partition(schema: Any, index: int, code: SchemaErrorCode, base: int, **more: object) -> object:
    return schema.PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=base,
        log_append_time=None,
        log_start_offset=4,
        record_errors=more.pop("record_errors", ()),
        **more,
    )


def answer(version: int) -> bytes:
    """Two topics: one success, one NOT_LEADER (with a leader from v10), one INVALID_RECORD."""
    schema: Any = load_payload_module(0, version, EntityType.response)
    moved = {}
    if version >= 10:
        moved = {"current_leader": schema.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)}
    refused = {
        "record_errors": (
            schema.BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="no key"),
            schema.BatchIndexAndErrorMessage(batch_index=8, batch_index_error_message=None),
        ),
        "error_message": "One or more records have been rejected",
    }
    key = "topic_id" if version >= 13 else "name"
    names = ({key: ORDERS}, {key: CARTS}) if version >= 13 else ({key: "orders"}, {key: "carts"})
    not_leader = SchemaErrorCode.not_leader_or_follower
    entity = schema.ProduceResponse(
        responses=(
            schema.TopicProduceResponse(
                partition_responses=(
                    partition(schema, 0, SchemaErrorCode.none, 1 << 40),
                    partition(schema, 7, not_leader, -1, **moved),
                ),
                **names[0],
            ),
            schema.TopicProduceResponse(
                partition_responses=(
                    partition(schema, 5, SchemaErrorCode.invalid_record, -1, **refused),
                ),
                **names[1],
            ),
        ),
        throttle_time=i32Timedelta.parse(dt.timedelta(milliseconds=70)),
    )
    out = io.BytesIO()
    entity_writer(schema.ProduceResponse)(out, entity)
    return out.getvalue()


def names(version: int) -> dict[bytes, TopicRef]:
    """What a producer that sent ENTRIES remembers."""
    topics = Topics(version)
    encode_produce(topics, b"", ENTRIES)
    return topics.names


def test_a_recreated_topic_is_named_by_its_new_id() -> None:
    topics = Topics(13)
    encode_produce(topics, b"", [entry("orders", ORDERS, 0, b"")])

    parts = encode_produce(topics, b"", [entry("orders", CARTS, 0, b"")])

    assert bytes(parts[0])[1:17] == CARTS.bytes
    assert {ref.topic_id for ref in topics.names.values()} == {ORDERS, CARTS}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_and_the_one_in_its_place_are_two_where_topics_have_ids(version: int) -> None:
    both = [entry("orders", ORDERS, 0, b"old"), entry("orders", CARTS, 1, b"new")]

    raw = b"".join(encode_produce(Topics(version), encode_head(None, -1, 5000), both))

    schema: Any = load_payload_module(0, version, EntityType.request)
    request, _ = entity_reader(schema.ProduceRequest)(raw, 0)
    found = [(t, tuple(p.index for p in t.partition_data)) for t in request.topic_data]
    if version >= 13:
        assert [(t.topic_id, parts) for t, parts in found] == [(ORDERS, (0,)), (CARTS, (1,))]
    else:
        assert [(t.name, parts) for t, parts in found] == [("orders", (0, 1))]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_of_an_independent_coder_is_understood(version: int) -> None:
    raw = b"head." + answer(version)
    acks, throttle_ms = decode_produce(version, raw, 5, names(version))
    moved_to = Leader(2, 9) if version >= 10 else None
    message = "One or more records have been rejected"
    errors = ((3, "no key"), (8, ""))
    assert acks == [
        ProduceAck("orders", 0, ErrorCode.NONE, 1 << 40, -1, 4, None, (), None),
        ProduceAck("orders", 7, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, 4, None, (), moved_to),
        ProduceAck("carts", 5, ErrorCode.INVALID_RECORD, -1, -1, 4, message, errors, None),
    ]
    assert throttle_ms == 70


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_cut_short_is_an_error_and_not_a_short_list(version: int) -> None:
    raw = answer(version)
    for end in range(len(raw) - 2):
        with pytest.raises((IndexError, ValueError, struct.error)):
            decode_produce(version, raw[:end], 0, names(version))


def test_an_error_code_of_a_newer_broker_is_the_unknown_error() -> None:
    raw = bytearray(answer(12))
    at = raw.index(b"\0\6")  # NOT_LEADER_OR_FOLLOWER
    raw[at : at + 2] = (999).to_bytes(2, "big")
    acks, _ = decode_produce(12, raw, 0, {})
    assert acks[1].error is ErrorCode.UNKNOWN_SERVER_ERROR
