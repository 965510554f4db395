"""Leaders, coordinators and controllers that die under a client, on three real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlRecord, ControlWriter, read_up_to
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, list_offsets
from mirrorfleet.kafka.producer import ProduceLane
from mirrorfleet.kafka.transactions import Transactions
from services.local.region import RegionSpec
from tests.conftest import Regions
from tests.contract.kafka.making import entry, new_topic
from tests.faultkit.waiting import until


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def collect(keys: list[bytes]) -> Callable[[ControlRecord], bool]:
    """Notes every key and never stops."""

    def note(record: ControlRecord) -> bool:
        keys.append(record.key)
        return False

    return note


@pytest.mark.timeout(180)
async def test_a_client_follows_what_moves_when_a_broker_dies(regions: Regions) -> None:
    (region,) = regions(RegionSpec(name="moving", brokers=3))
    async with Cluster(region.settings()) as cluster:
        topic = await new_topic(cluster)
        at, name = TopicPartition(topic.name, 0), "slot"
        transactions = Transactions(cluster, name, await cluster.transaction_version())
        producer = await transactions.init_producer_id(timeout_ms=60_000)
        leader = await cluster.leader(at)
        coordinator = await find_coordinator(cluster, name, CoordinatorKind.TRANSACTION, 10)
        lane = ProduceLane(
            await cluster.connect(leader.node_id, purpose="test"), transactional_id=name
        )
        written = entry(topic, 0, (b"txn", b"1"), producer=producer, sequence=0)
        (ack,) = await lane.send([written])
        assert ack.base_offset == 0
        writer = ControlWriter(cluster)

        region.broker(leader.node_id).kill()
        if coordinator != leader.node_id:
            await until(lambda: lane.connection.closed, deadline_s=20, what="the lost connection")
        following = await transactions.end(producer, commit=True, deadline_s=60)
        assert following == ProducerIdentity(producer.producer_id, producer.epoch + 1)
        await writer.write(at, [(b"after", b"2")], now_ms())
        moved = await cluster.leader(at)
        assert moved.node_id != leader.node_id
        assert moved.leader_epoch > leader.leader_epoch

        end = (await list_offsets(cluster, {at: LATEST}, deadline_s=30))[at]
        assert isinstance(end, ListedOffset)
        seen: list[bytes] = []
        await read_up_to(cluster, at, collect(seen), deadline_s=30, end_offset=end.offset)
        assert seen == [b"txn", b"after"]

        fresh = f"client-{uuid4().hex[:8]}"
        assert await create_topics(cluster, [NewTopic(name=fresh)], deadline_s=30) == {fresh: None}
