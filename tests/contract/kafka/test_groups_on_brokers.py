"""Groups of the new protocol (KIP-848) on a real broker of Kafka 4.3: set from outside while nobody
is in them, and only then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import (
    GroupDescription,
    GroupState,
    commit_offsets,
    describe_groups,
    fetch_offsets,
    list_groups,
)
from mirrorfleet.offsets.homes import GroupOffset
from services.local.region import Region
from tests.contract.kafka.making import new_topic
from tests.faultkit.regions import address
from tests.faultkit.waiting import until


@pytest.fixture
async def cluster(east: Region) -> AsyncIterator[Cluster]:
    async with Cluster(east.settings()) as opened:
        yield opened


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


async def test_a_group_of_the_new_protocol_is_set_when_it_is_empty_and_left_alone_when_not(
    east: Region, cluster: Cluster
) -> None:
    topic, group = (await new_topic(cluster)).name, f"kip848-{uuid4().hex[:8]}"
    at = TopicPartition(topic, 0)

    async def described() -> GroupDescription:
        found = (await describe_groups(cluster, [group]))[group]
        assert not isinstance(found, BrokerError), found
        return found

    async def state() -> GroupState:
        found = await described()
        listed = (await list_groups(cluster)).get(group)
        return found.state if listed is None or listed.state is found.state else GroupState.UNKNOWN

    async def put(offset: int) -> BrokerError | None:
        place = {group: {at: GroupOffset(offset, "m")}}
        return (await commit_offsets(cluster, place))[group]

    async def stands() -> object:
        return (await fetch_offsets(cluster, [group]))[group]

    assert await put(0) is None  # before anybody was in it
    with member(east, group, topic) as consumer:

        async def is_active() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment()) and await state() is GroupState.STABLE

        await until(is_active, deadline_s=60, what=f"{group} to be active")
        (joined,) = (await described()).members
        assert joined.brings == b""  # what only classic members bring
        refused = await put(7)
        assert isinstance(refused, BrokerError)
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert await stands() == {at: GroupOffset(0, "m")}

    async def is_empty() -> bool:
        return await state() is GroupState.EMPTY

    await until(is_empty, deadline_s=60, what=f"{group} to be empty")
    assert await put(7) is None
    assert await stands() == {at: GroupOffset(7, "m")}
    assert await state() is GroupState.EMPTY
