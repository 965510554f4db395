"""Answers of the control plane, as they come off the wire."""

from __future__ import annotations

import pytest
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.schema.metadata.v10.response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.codec import code_of, decode, encode, milliseconds
from mirrorfleet.kafka.metadata import read_metadata
from tests.unit.kafka.transport import answer, connected

KNOWN = SchemaErrorCode.streams_topology_fenced
NEWER = (999).to_bytes(2, "big")


def topic(name: str, code: SchemaErrorCode, leader: int) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        error_code=code, partition_index=i32(0), leader_id=BrokerId(leader)
    )
    return MetadataResponseTopic(
        error_code=code, name=TopicName(name), topic_id=None, partitions=(partition,)
    )


async def test_a_newer_error_code_is_the_unknown_error_and_ends_no_connection() -> None:
    connection, transport = connected()
    request = EndTxnRequest(
        transactional_id=TransactionalId("t"),
        producer_id=ProducerId(1),
        producer_epoch=i16(0),
        committed=True,
    )
    transport.writelines = lambda _: answer(  # type: ignore[method-assign,assignment]  # answers at once
        connection, 1, b"\0" + b"\0\0\0\0" + NEWER + b"\0"
    )

    got = await call(connection, request, EndTxnResponse, 9.0)

    assert code_of(got.error_code) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not connection.closed


def test_a_topic_with_a_newer_error_code_leaves_the_others_of_its_answer_readable() -> None:
    body = encode(
        MetadataResponse(
            throttle_time=milliseconds(0),
            brokers=(),
            cluster_id="c",
            controller_id=BrokerId(1),
            topics=(topic("strange", KNOWN, -1), topic("plain", SchemaErrorCode.none, 7)),
        )
    )
    newer = body.replace(KNOWN.to_bytes(2, "big"), NEWER)
    assert newer != body

    found = read_metadata(decode(MetadataResponse, newer, 0))

    assert found.topics["strange"].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert found.topics["plain"].error is ErrorCode.NONE
    assert found.topics["plain"].partitions[0].leader == 7


def test_bytes_that_are_no_answer_are_refused() -> None:
    with pytest.raises(ValueError, match="not a EndTxnResponse v3"):
        decode(EndTxnResponse, NEWER, 0)
