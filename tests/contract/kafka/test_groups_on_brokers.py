"""Groups on a real broker of Kafka 4.3: set from outside while nobody is in them, and only then,
also those of the new protocol (KIP-848) and of Kafka Streams' own (KIP-1071); however many offsets
they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Confluent
from kio.schema.errors import ErrorCode as Code
from kio.schema.streams_group_heartbeat.v0.request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import groups as module
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import milliseconds
from mirrorfleet.kafka.group_members import GroupDescription, describe_groups
from mirrorfleet.kafka.groups import (
    GroupState,
    commit_offsets,
    fetch_offsets,
    find_coordinators,
    list_groups,
)
from mirrorfleet.offsets.homes import Activity, GroupOffset
from services.local.region import Region
from tests.contract.kafka.making import new_topic
from tests.faultkit.regions import address
from tests.faultkit.waiting import until


@contextmanager
def member(region: Region, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer by the new protocol that commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": address(region),
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


class Watched:
    """A group, as its coordinator and the list of groups tell it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.name = f"kip848-{uuid4().hex[:8]}"
        self.at = TopicPartition(topic, 0)
        self._cluster = cluster

    async def described(self) -> GroupDescription:
        found = (await describe_groups(self._cluster, [self.name]))[self.name]
        assert not isinstance(found, BrokerError), found
        return found

    async def state(self) -> GroupState:
        found = await self.described()
        listed = (await list_groups(self._cluster)).get(self.name)
        return found.state if listed is None or listed.state is found.state else GroupState.UNKNOWN

    async def put(self, offset: int) -> BrokerError | None:
        place = {self.name: {self.at: GroupOffset(offset, "m")}}
        return (await commit_offsets(self._cluster, place))[self.name]

    async def stands(self) -> object:
        return (await fetch_offsets(self._cluster, [self.name]))[self.name]


async def test_a_group_of_the_new_protocol_is_set_when_it_is_empty_and_left_alone_when_not(
    east: Region, cluster: Cluster
) -> None:
    group = Watched(cluster, (await new_topic(cluster)).name)

    assert await group.put(0) is None  # before anybody was in it
    with member(east, group.name, group.at.topic) as consumer:

        async def is_active() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment()) and await group.state() is GroupState.STABLE

        await until(is_active, deadline_s=60, what=f"{group.name} to be active")
        (joined,) = (await group.described()).members
        assert joined.brings == b""  # what only classic members bring
        refused = await group.put(7)
        assert isinstance(refused, BrokerError)
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert await group.stands() == {group.at: GroupOffset(0, "m")}

    async def is_empty() -> bool:
        return await group.state() is GroupState.EMPTY

    await until(is_empty, deadline_s=60, what=f"{group.name} to be empty")
    assert await group.put(7) is None
    assert await group.stands() == {group.at: GroupOffset(7, "m")}
    assert await group.state() is GroupState.EMPTY


class StreamsMember:
    """An application of Kafka Streams that reads one topic, as far as its coordinator knows."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self._cluster, self._group = cluster, group
        self._reads = Subtopology(
            subtopology_id="0",
            source_topics=(TopicName(topic),),
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )

    async def join(self) -> None:
        await self._say(0)

    async def leave(self) -> None:
        await self._say(-1)

    async def _say(self, epoch: int) -> None:
        joins = epoch == 0
        node = (await find_coordinators(self._cluster, [self._group], 10))[self._group]
        assert isinstance(node, int), node
        request = StreamsGroupHeartbeatRequest(
            group_id=GroupId(self._group),
            member_id=self._group,
            member_epoch=i32(epoch),
            endpoint_information_epoch=i32(0),
            rebalance_timeout=milliseconds(60_000 if joins else -1),
            topology=Topology(epoch=i32(0), subtopologies=(self._reads,)) if joins else None,
            active_tasks=() if joins else None,
            standby_tasks=() if joins else None,
            warmup_tasks=() if joins else None,
            process_id=self._group if joins else None,
            client_tags=() if joins else None,
            task_offsets=None,
            task_end_offsets=None,
        )
        answer = await self._cluster.ask(request, StreamsGroupHeartbeatResponse, node=node)
        assert answer.error_code is Code.none, answer


async def test_a_group_of_kafka_streams_is_listed_described_and_set_as_others_are(
    cluster: Cluster,
) -> None:
    """It keeps what was set before it was there: so it begins where it was on the other side."""
    group = Watched(cluster, (await new_topic(cluster)).name)
    application = StreamsMember(cluster, group.name, group.at.topic)
    assert await group.put(5) is None

    await application.join()
    assert (await list_groups(cluster))[group.name].state.activity is Activity.ACTIVE
    joined = await group.described()
    assert joined.state.activity is Activity.ACTIVE
    assert [one.member_id for one in joined.members] == [group.name]
    refused = await group.put(7)
    assert isinstance(refused, BrokerError)
    assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert await group.stands() == {group.at: GroupOffset(5, "m")}

    await application.leave()
    assert await group.state() is GroupState.EMPTY
    assert await group.put(7) is None
    assert await group.stands() == {group.at: GroupOffset(7, "m")}


async def test_an_offset_of_a_transaction_that_is_open_is_not_stable_until_it_is_over(
    east: Region, cluster: Cluster
) -> None:
    group = Watched(cluster, (await new_topic(cluster)).name)
    assert await group.put(3) is None
    client = {"bootstrap.servers": address(east)}
    consumer = Consumer({**client, "group.id": group.name})
    producer = Producer({**client, "transactional.id": group.name})
    producer.init_transactions(20)
    producer.begin_transaction()
    place = Confluent(group.at.topic, 0, 9)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 20)

    asked = await fetch_offsets(cluster, [group.name], once=True, stable=True)
    undecided = asked[group.name]
    assert isinstance(undecided, BrokerError)
    assert undecided.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await group.stands() == {group.at: GroupOffset(3, "m")}

    producer.commit_transaction(20)
    found = (await fetch_offsets(cluster, [group.name], stable=True))[group.name]
    assert found == {group.at: GroupOffset(9)}
    consumer.close()


async def test_offsets_that_a_coordinator_does_not_take_at_once_are_set_in_parts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.2 MB of them: it would write 1,048,588 bytes at most for one request.

    As many partitions without metadata would be more than a broker for tests should hold.
    """
    topic, group = await new_topic(cluster, 300), f"many-{uuid4().hex[:8]}"
    places = {
        TopicPartition(topic.name, number): GroupOffset(number, "m" * 4_000)
        for number in range(300)
    }
    with monkeypatch.context() as patched:
        patched.setattr(module, "_MOST_BYTES", 1 << 30)
        refused = (await commit_offsets(cluster, {group: places}))[group]
    assert isinstance(refused, BrokerError)
    assert (await fetch_offsets(cluster, [group]))[group] == {}

    assert await commit_offsets(cluster, {group: places}) == {group: None}

    assert (await fetch_offsets(cluster, [group]))[group] == places
