"""Fetching and producing on a real broker of Kafka 4.3."""

from __future__ import annotations

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.producer import ProduceLane
from tests.contract.kafka.making import (
    base_offsets,
    entry,
    fetch_one,
    lane_to,
    new_topic,
    point,
    values,
)


@pytest.fixture
async def producing(cluster: Cluster) -> ProduceLane:
    return ProduceLane(await cluster.connect(1, purpose="test"))


@pytest.mark.parametrize("by", ["id", "name"])
async def test_what_is_produced_is_fetched(
    cluster: Cluster, producing: ProduceLane, by: str
) -> None:
    topic = await new_topic(cluster, partitions=2)
    if by == "name":
        topic = topic._replace(topic_id=NO_TOPIC_ID)
    acks = await producing.send([entry(topic, 0, (b"k", b"zero")), entry(topic, 1, (None, b"one"))])
    assert {(a.partition, a.error, a.base_offset) for a in acks} == {
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 0),
    }
    lane = await lane_to(cluster, topic)
    fetched, found = await fetch_one(lane, point(topic, 1, 0))
    assert values(fetched, found) == [b"one"]
    assert (found.topic, found.topic_id) == (topic.name, topic.topic_id)
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (1, 1, 0)


async def test_a_frame_of_megabytes_is_one_bytearray_with_the_same_bytes(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, configs={"max.message.bytes": "10000000"})
    value = bytes(range(256)) * 20_000
    (ack,) = await producing.send([entry(topic, 0, (b"k", value))])
    assert ack.error is ErrorCode.NONE
    fetched, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 0))
    assert type(fetched.buffer) is bytearray
    assert values(fetched, found) == [value]


async def test_many_requests_in_flight_are_answered_in_their_order(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster)
    pending = [producing.send([entry(topic, 0, (b"k", b"%d" % n))]) for n in range(64)]
    assert producing.connection.in_flight == 64
    assert [(await acks)[0].base_offset for acks in pending] == list(range(64))


async def test_an_incremental_answer_has_only_partitions_with_news(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, partitions=3)
    lane = await lane_to(cluster, topic)
    for partition in range(3):
        lane.want(point(topic, partition, 0))
    first = await lane.fetch(max_bytes=1 << 20, min_bytes=0, max_wait_ms=0)
    assert [p.partition for p in first.partitions] == [0, 1, 2]
    await producing.send([entry(topic, 1, (b"k", b"news"))])
    second = await lane.fetch(max_bytes=1 << 20, max_wait_ms=5000)
    assert [p.partition for p in second.partitions] == [1]


async def test_a_forgotten_partition_is_not_answered_again(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, partitions=2)
    await producing.send([entry(topic, p, (b"k", b"v")) for p in (0, 1)])
    lane = await lane_to(cluster, topic)
    for partition in (0, 1):
        lane.want(point(topic, partition, 0))
    await lane.fetch(max_bytes=1 << 20, max_wait_ms=5000)
    lane.forget(topic.topic_id, 0)
    again = await lane.fetch(max_bytes=1 << 20, max_wait_ms=5000)
    assert [p.partition for p in again.partitions] == [1]


async def test_an_offset_past_the_end_is_an_error_of_its_partition(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster)
    _, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 99))
    assert found.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert found.start == found.end


async def test_history_that_the_leader_does_not_have_is_named_where_it_diverges(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster)
    await producing.send([entry(topic, 0, (b"k", b"v"))])
    read_elsewhere = point(topic, 0, 99, last_fetched_epoch=0)
    _, found = await fetch_one(await lane_to(cluster, topic), read_elsewhere)
    assert (found.error, found.diverging_epoch) == (ErrorCode.NONE, (0, 1))


async def test_a_broker_that_does_not_know_our_epoch_yet_refuses(cluster: Cluster) -> None:
    topic = await new_topic(cluster)
    _, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 0, leader_epoch=7))
    assert found.error is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_an_id_that_no_topic_has_is_an_error_of_its_partition(cluster: Cluster) -> None:
    topic = await new_topic(cluster)
    stranger = topic._replace(topic_id=(await new_topic(cluster)).topic_id)
    lane = await lane_to(cluster, topic)
    gone = stranger._replace(topic_id=type(topic.topic_id)(int=4711))
    _, found = await fetch_one(lane, point(gone, 0, 0))
    assert found.error is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster)
    await producing.send([entry(topic, 0, (b"a", b"0"), (b"b", b"1"), (b"c", b"2"))])
    fetched, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 2))
    assert base_offsets(fetched, found) == [0]


async def test_a_batch_with_a_wrong_sum_is_refused_and_its_neighbour_taken(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, partitions=2)
    good, bad = entry(topic, 0, (b"k", b"good")), entry(topic, 1, (b"k", b"bad"))
    bad = bad._replace(payload=bytes(bad.payload).replace(b"bad", b"BAD"))
    acks = await producing.send([good, bad])
    assert {a.partition: a.error for a in acks} == {
        0: ErrorCode.NONE,
        1: ErrorCode.CORRUPT_MESSAGE,
    }


async def test_a_record_without_key_for_a_compacted_topic_is_named_by_its_index(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, configs={"cleanup.policy": "compact"})
    (ack,) = await producing.send([entry(topic, 0, (b"k", b"v"), (None, b"v"))])
    assert ack.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in ack.record_errors] == [1]
    assert ack.message is not None


async def test_a_batch_that_is_too_large_is_refused(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster, configs={"max.message.bytes": "1000"})
    (ack,) = await producing.send([entry(topic, 0, (b"k", bytes(2000)))])
    assert ack.error is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_recreated_topic_is_refused_by_its_old_id(
    cluster: Cluster, producing: ProduceLane
) -> None:
    topic = await new_topic(cluster)
    old = topic._replace(topic_id=type(topic.topic_id)(int=4711))
    (ack,) = await producing.send([entry(old, 0, (b"k", b"v"))])
    assert ack.error is ErrorCode.UNKNOWN_TOPIC_ID
