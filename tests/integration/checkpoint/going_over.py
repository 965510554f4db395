"""`mirrorfleet failover` beside a checkpoint at work, on real brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.group_members import describe_groups
from mirrorfleet.kafka.groups import GroupState, commit_offsets, fetch_offsets
from mirrorfleet.offsets.homes import GroupOffset
from services.cli.__main__ import main
from services.local.region import Region
from tests.faultkit.regions import address
from tests.faultkit.waiting import until
from tests.integration.checkpoint.fleet import World, next_value
from tests.integration.mirror.making import Made, put


async def check_a_group_goes_over(
    world: World, clusters: Mapping[str, Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not while it has members; then, within a wait, at the exact record of what is new as well."""
    way, group = world.ways[0], f"{world.name}-g-over"
    source, target = clusters[way.source.name], clusters[way.target.name]
    topic = way.topics[0]
    at, there = TopicPartition(topic, 1), TopicPartition(way.there(topic), 1)
    estate = ["--estate", str(world.estate), "--target", way.target.name, "-o", "json"]

    async def outcome(*more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["failover", group, *estate, *more])
        (row,) = json.loads(capsys.readouterr().out)
        assert (row["group"], row["topics"]) == (group, [there.topic])
        return code, row["outcome"], row["words"]

    assert await commit_offsets(source, {group: {at: GroupOffset(0)}}) == {group: None}
    async with active_on(way.source, topic, source, group):
        assert await outcome("--within", "0") == (
            2,
            "stop it",
            "it has members at home, and reads on",
        )
    put(way.source, topic, [Made(b"new-%d" % number, partition=1) for number in range(500)])
    log = way.log(topic)[1]
    middle = next(one.offset for one in log if one.value == b"new-250")
    assert await commit_offsets(source, {group: {at: GroupOffset(middle)}}) == {group: None}

    code, word, _ = await outcome("--within", "30", "--drain", "all")

    assert (code, word) == (0, "ready")
    placed = (await fetch_offsets(target, [group]))[group]
    assert not isinstance(placed, BrokerError)
    assert next_value(way.copy(topic)[1], placed[there].offset) == b"new-250"
    async with active_on(way.target, there.topic, target, group):
        assert await outcome("--within", "0") == (0, "works there", "it has members there")


@asynccontextmanager
async def active_on(
    region: Region, topic: str, cluster: Cluster, group: str
) -> AsyncIterator[None]:
    """A consumer of the group that commits nothing."""
    consumer = Consumer(
        {"bootstrap.servers": address(region), "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic])

    async def is_active() -> bool:
        consumer.poll(0.1)
        found = (await describe_groups(cluster, [group]))[group]
        return not isinstance(found, BrokerError) and found.state is GroupState.STABLE

    try:
        await until(is_active, deadline_s=30, what=f"{group} to be active on {region.name}")
        yield
    finally:
        consumer.close()
