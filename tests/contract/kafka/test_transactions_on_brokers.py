"""Transactions on real brokers: v2 on Kafka 4.3, v1 on 3.9.1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import FencedError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from mirrorfleet.kafka.producer import ProduceLane
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.wire.copybatch import AbortedTransaction
from services.local.region import Region
from tests.contract.kafka.making import entry, fetch_one, lane_to, new_topic, point
from tests.contract.kafka.writing import Writer, until_committed, writer_on

V1, V2 = TransactionVersion.V1, TransactionVersion.V2


@pytest.fixture
async def old_cluster(old: Region) -> AsyncIterator[Cluster]:
    async with Cluster(old.settings()) as opened:
        yield opened


async def test_v2_commits_what_was_written_and_hands_out_the_next_epoch(cluster: Cluster) -> None:
    assert await cluster.transaction_version() is V2
    topic = await new_topic(cluster)
    writer = await writer_on(cluster, topic)
    first = writer.producer
    for value in (b"one", b"two"):
        await writer.write(value)
        await writer.end(commit=True)
    assert writer.producer == ProducerIdentity(first.producer_id, first.epoch + 2)
    await until_committed(cluster, topic, [b"one", b"two"])


async def test_v2_aborts_are_listed_and_the_next_transaction_is_seen(cluster: Cluster) -> None:
    topic = await new_topic(cluster)
    writer = await writer_on(cluster, topic)
    await writer.write(b"lost")
    await writer.end(commit=False)
    await writer.write(b"kept")
    await writer.end(commit=True)
    await until_committed(cluster, topic, [b"kept"])
    _, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 0))
    assert found.aborted == [AbortedTransaction(writer.producer.producer_id, 0)]


@pytest.mark.parametrize("result", ["commit", "abort"])
async def test_v2_answers_the_same_end_again_with_the_same_next_epoch(
    cluster: Cluster, result: str
) -> None:
    """What makes it right to send an EndTxn again after a lost answer."""
    writer = await writer_on(cluster, await new_topic(cluster))
    await writer.write(b"v")
    once = await writer.transactions.end(writer.producer, commit=result == "commit")
    again = await writer.transactions.end(writer.producer, commit=result == "commit")
    assert once == again == ProducerIdentity(writer.producer.producer_id, writer.producer.epoch + 1)


async def test_an_open_transaction_hides_what_it_wrote_and_shows_who_holds_it(
    cluster: Cluster,
) -> None:
    topic = await new_topic(cluster)
    writer = await writer_on(cluster, topic)
    await writer.write(b"v")
    lane = await lane_to(cluster, topic)
    lane.want(point(topic, 0, 0))
    (found,) = (await lane.fetch(max_bytes=1 << 20, min_bytes=0, max_wait_ms=0)).partitions
    assert (found.high_watermark, found.last_stable_offset) == (1, 0)
    assert found.start == found.end
    at, name = TopicPartition(topic.name, 0), writer.transactions.transactional_id
    producers = (await describe_producers(cluster, [at]))[at]
    assert isinstance(producers, list)
    assert [(p.producer, p.transaction_start) for p in producers] == [(writer.producer, 0)]
    described = (await describe_transactions(cluster, [name]))[name]
    assert not isinstance(described, Exception)
    assert (described.state, described.partitions) == ("Ongoing", (at,))
    assert name in {found.transactional_id for found in await list_transactions(cluster)}
    await writer.end(commit=False)


@pytest.mark.parametrize("where", ["4.3 v2", "3.9 v1"])
async def test_a_second_owner_fences_the_first_at_the_coordinator_and_at_the_partition(
    cluster: Cluster, old_cluster: Cluster, where: str
) -> None:
    on = cluster if where == "4.3 v2" else old_cluster
    topic = await new_topic(on)
    zombie = await writer_on(on, topic, name := f"slot-{uuid4().hex[:8]}")
    await zombie.write(b"zombie")
    owner = await writer_on(on, topic, name)
    batch = entry(topic, 0, (b"k", b"late"), producer=zombie.producer, sequence=1)
    (ack,) = await zombie.lane.send([batch])
    assert ack.error in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
    with pytest.raises(FencedError, match=name):
        await zombie.end(commit=True)
    await owner.write(b"owner")
    await owner.end(commit=True)
    await until_committed(on, topic, [b"owner"])


@pytest.mark.parametrize("end", ["commit", "abort", "take-over"])
async def test_v2_partitions_may_be_added_by_a_request_and_end_like_others(
    cluster: Cluster, end: str
) -> None:
    """Also one that nothing is written to."""
    topic = await new_topic(cluster, partitions=2)
    writer = await writer_on(cluster, topic)
    both = [TopicPartition(topic.name, number) for number in range(2)]
    for _ in range(2):
        await writer.transactions.add_partitions(writer.producer, both)
    await writer.write(b"one")
    if end == "take-over":
        heir = await writer_on(cluster, topic, writer.transactions.transactional_id)
        assert heir.producer.epoch > writer.producer.epoch
        writer = heir
    else:
        first = writer.producer
        await writer.end(commit=end == "commit")
        assert writer.producer == ProducerIdentity(first.producer_id, first.epoch + 1)
    await writer.write(b"two")
    await writer.end(commit=True)
    await until_committed(cluster, topic, [b"one", b"two"] if end == "commit" else [b"two"])
    for found in (await describe_producers(cluster, both)).values():
        assert isinstance(found, list)
        assert all(each.transaction_start is None for each in found)


async def test_v1_keeps_its_epoch_over_commits_and_an_abort_is_a_new_epoch(
    old_cluster: Cluster,
) -> None:
    assert await old_cluster.transaction_version() is V1
    topic = await new_topic(old_cluster)
    writer = await writer_on(old_cluster, topic)
    before = writer.producer
    await writer.write(b"one")
    await writer.end(commit=True)
    assert writer.producer == before
    await writer.write(b"lost")
    await writer.init()
    # one epoch to fence the open transaction, one for us
    assert writer.producer == ProducerIdentity(before.producer_id, before.epoch + 2)
    await writer.write(b"two")
    await writer.end(commit=True)
    await until_committed(old_cluster, topic, [b"one", b"two"])


async def test_v1_speaks_produce_11_even_to_a_broker_that_knows_v2(cluster: Cluster) -> None:
    """v12 would have the broker add the partition itself, and mix both kinds of transaction."""
    topic = await new_topic(cluster)
    name = f"slot-{uuid4().hex[:8]}"
    lane = ProduceLane(
        await cluster.connect(1, purpose="test"), transactional_id=name, transactions=V1
    )
    writer = Writer(Transactions(cluster, name, V1), lane, topic)
    await writer.init()
    await writer.write(b"v")
    await writer.end(commit=True)
    await until_committed(cluster, topic, [b"v"])
    batch = entry(topic, 0, (b"k", b"not added"), producer=writer.producer, sequence=1)
    assert await writer.answer(batch) is ErrorCode.TRANSACTION_ABORTABLE
