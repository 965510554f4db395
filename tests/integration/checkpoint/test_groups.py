"""Groups find the first record that they have not committed, on real brokers and whole services."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Confluent

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.kafka.groups import (
    GroupState,
    commit_offsets,
    describe_groups,
    fetch_offsets,
    list_groups,
)
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.records import checkpoint, offset_sync
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.records.offset_sync import OffsetSync
from services.cli.__main__ import main
from services.local.region import Region
from tests.faultkit.regions import address
from tests.faultkit.waiting import until
from tests.integration.checkpoint.fleet import (
    PARTITIONS,
    World,
    make_topics,
    next_value,
    random_places,
    write_records,
)

Places = dict[str, dict[TopicPartition, GroupOffset]]


@pytest.fixture
async def east_cluster(east: Region) -> AsyncIterator[Cluster]:
    async with Cluster(east.settings()) as cluster:
        yield cluster


@pytest.fixture
async def west_cluster(west: Region) -> AsyncIterator[Cluster]:
    async with Cluster(west.settings()) as cluster:
        yield cluster


@pytest.fixture
def world(east: Region, west: Region, tmp_path: Path) -> Iterator[World]:
    made = World("chk", east, west, tmp_path)
    made.write_estate()
    make_topics(made)
    with made.running("sync", "mirror"):
        yield made


async def set_places(cluster: Cluster, places: Places) -> None:
    answers = await commit_offsets(cluster, places)
    assert set(answers.values()) == {None}


async def offsets_on(cluster: Cluster, groups: list[str]) -> Places:
    found = await fetch_offsets(cluster, groups)
    return {group: one for group, one in found.items() if not isinstance(one, BrokerError)}


def expected(world: World, places: Places) -> Places:
    """By brute force over what two readers of librdkafka are handed."""
    sources = {topic: world.source(topic) for topic in world.topics}
    copies = {topic: world.copy(topic) for topic in world.topics}
    found: Places = {}
    for group, offsets in places.items():
        found[group] = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            wanted = next_value(sources[topic][partition], offset)
            copy = copies[topic][partition]
            end = copy[-1].offset + 1
            target = next((one.offset for one in copy if one.value == wanted), end)
            at = TopicPartition(f"east.{topic}", partition)
            found[group][at] = GroupOffset(target, metadata)
    return found


def first_read(region: Region, group: str, at: TopicPartition) -> bytes | None:
    """What a consumer of the group is handed first."""
    consumer = Consumer(
        {
            "bootstrap.servers": address(region),
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([Confluent(*at)])
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None, message.error()
        return message.value()
    finally:
        consumer.close()


@pytest.mark.timeout(300)
async def test_200_groups_go_on_at_the_first_record_they_have_not_committed(
    world: World, east_cluster: Cluster, west_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(4)
    write_records(world, dice, 40)
    world.wait_copied()
    places = random_places(world, dice)
    await set_places(east_cluster, places)

    async def in_place(wanted: Places) -> bool:
        return await offsets_on(west_cluster, list(wanted)) == wanted

    with world.running("checkpoint"):
        wanted = expected(world, places)
        await until(lambda: in_place(wanted), deadline_s=30, what="200 groups in their places")
        check_first_records(world, places)
        await check_mm2_topics(world, west_cluster, places, wanted)
        await check_packed(world, west_cluster)
        check_translate(world)
    # a restart reads the archive, and the source has moved on
    write_records(world, dice, 15)
    world.wait_copied()
    moved = {group: dict(offsets) for group, offsets in list(random_places(world, dice).items())}
    later = forward_only(places, moved)
    await set_places(east_cluster, later)
    with world.running("checkpoint"):
        wanted = expected(world, later)
        await until(lambda: in_place(wanted), deadline_s=30, what="200 groups moved on")
        check_translate(world)
        await asyncio.to_thread(check_commands, world, later, capsys)
        await check_active_group_is_left_alone(world, east_cluster, west_cluster)


def forward_only(before: Places, after: Places) -> Places:
    return {
        group: {
            at: max(offset, after.get(group, {}).get(at, offset)) for at, offset in offsets.items()
        }
        for group, offsets in before.items()
    }


def check_first_records(world: World, places: Places) -> None:
    """Real consumers of some of the groups."""
    sources = {topic: world.source(topic) for topic in world.topics}
    checked = 0
    for group, offsets in list(places.items())[:6]:
        for at, place in offsets.items():
            wanted = next_value(sources[at.topic][at.partition], place.offset)
            if wanted is not None:
                there = TopicPartition(f"east.{at.topic}", at.partition)
                assert first_read(world.west, group, there) == wanted, (group, at, place)
                checked += 1
    assert checked > 10


async def check_mm2_topics(world: World, cluster: Cluster, places: Places, wanted: Places) -> None:
    alias = ClusterAlias("east")
    points = {}
    for record in await read_to_end(cluster.settings, checkpoint.topic_name(alias)):
        point = checkpoint.decode(record.key, record.value)
        if isinstance(point, Checkpoint) and point.group in places:
            points[point.group, point.partition] = (point.target, point.metadata)
    assert points == {
        (group, at): (offset.offset, offset.metadata)
        for group, offsets in wanted.items()
        for at, offset in offsets.items()
    }
    syncs = {}
    for record in await read_to_end(cluster.settings, offset_sync.topic_name(alias)):
        sync = offset_sync.decode(record.key, record.value)
        if isinstance(sync, OffsetSync) and sync.partition.topic in world.topics:
            syncs[sync.partition] = (sync.source, sync.target)
    assert syncs == {
        TopicPartition(topic, number): (source[-1].offset, copy[-1].offset)
        for topic in world.topics
        for number, (source, copy) in enumerate(
            zip(world.source(topic), world.copy(topic), strict=True)
        )
    }


async def check_packed(world: World, cluster: Cluster) -> None:
    """The fleet's own packer has freed segments."""
    slots = [TopicPartition(world.control("segments"), slot) for slot in range(2)]

    async def freed() -> bool:
        starts = await list_offsets(cluster, dict.fromkeys(slots, EARLIEST))
        ends = await list_offsets(cluster, dict.fromkeys(slots, LATEST))
        pairs = [(starts[slot], ends[slot]) for slot in slots]
        return all(
            not isinstance(start, BrokerError)
            and not isinstance(end, BrokerError)
            and (start.offset > 0 or end.offset < 20)
            for start, end in pairs
        ) and any(not isinstance(start, BrokerError) and start.offset > 0 for start, _ in pairs)

    await until(freed, deadline_s=20, what="segments to be packed")


def check_translate(world: World) -> None:
    """Every 23rd offset of both sides, by HTTP, against brute force."""
    for topic in world.topics:
        logs = zip(world.source(topic), world.copy(topic), strict=True)
        for partition, (source, copy) in enumerate(logs):
            for offset in range(0, source[-1].offset + 1, 23):
                found = ask(world, topic, partition, offset, "to-target")
                assert next_value(copy, found) == next_value(source, offset), (topic, offset)
            for offset in range(0, copy[-1].offset + 1, 23):
                found = ask(world, f"east.{topic}", partition, offset, "to-source")
                assert next_value(source, found) == next_value(copy, offset), (topic, offset)


def ask(world: World, topic: str, partition: int, offset: int, direction: str) -> int:
    answer = world.services["checkpoint"].get(
        f"/translate?source=east&topic={topic}&partition={partition}"
        f"&offset={offset}&direction={direction}"
    )
    assert answer.status_code == 200, answer.text
    return int(answer.json()["other_offset"])


def check_commands(world: World, places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    estate = ["--estate", str(world.estate), "--target", "west", "-o", "json"]
    capsys.readouterr()
    group = f"{world.name}-g7"
    assert main(["groups", "--group", group, *estate]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["topic"], row["partition"], row["source_offset"]) for row in rows} == {
        (at.topic, at.partition, one.offset) for at, one in places[group].items()
    }
    assert all(row["translated"] == row["target_offset"] for row in rows)
    assert main(["groups", "--group", "nobody", *estate]) == 1
    assert "'nobody' is no group of east that a rule takes" in capsys.readouterr().err

    topic = world.topics[1]
    source, copy = world.source(topic)[1], world.copy(topic)[1]
    half = source[len(source) // 2].offset
    assert main(["offsets", "translate", f"{topic}-1", str(half), *estate]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert next_value(copy, row["other_offset"]) == next_value(source, half)
    assert main(["offsets", "translate", "none-1", "5", *estate]) == 1
    assert "no source partition none-1 is copied" in capsys.readouterr().err


async def check_active_group_is_left_alone(world: World, source: Cluster, target: Cluster) -> None:
    """Its home is where it is active; the others go on."""
    awake, asleep = f"{world.name}-g1", f"{world.name}-g2"
    topic = world.topics[0]
    there = [TopicPartition(f"east.{topic}", number) for number in range(PARTITIONS)]
    ends = [log[-1].offset + 1 for log in world.source(topic)]
    copies = [log[-1].offset + 1 for log in world.copy(topic)]
    at_end = {TopicPartition(topic, n): GroupOffset(ends[n]) for n in range(PARTITIONS)}

    async def moved() -> bool:
        offsets = (await offsets_on(target, [asleep]))[asleep]
        return [offsets[at].offset for at in there if at in offsets] == copies

    async with active_on(world, target, awake):
        refused = (await commit_offsets(target, {awake: {there[0]: GroupOffset(1)}}))[awake]
        assert isinstance(refused, BrokerError)
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        before = await offsets_on(target, [awake])
        await set_places(source, {awake: at_end, asleep: at_end})
        await until(moved, deadline_s=20, what="the sleeping group to move")
        assert await offsets_on(target, [awake]) == before
        status = world.services["checkpoint"].status()
        assert '"home": "target", "why": "it has members on the target"' in json.dumps(status)
        listed = await list_groups(target)
        assert (listed[awake].state, listed[asleep].state) == (GroupState.STABLE, GroupState.EMPTY)


@asynccontextmanager
async def active_on(world: World, target: Cluster, group: str) -> AsyncIterator[None]:
    """A consumer of the group on the target that commits nothing."""
    consumer = Consumer(
        {"bootstrap.servers": address(world.west), "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([f"east.{world.topics[0]}"])

    async def is_active() -> bool:
        consumer.poll(0.1)
        found = (await describe_groups(target, [group]))[group]
        return not isinstance(found, BrokerError) and found.state is GroupState.STABLE

    try:
        await until(is_active, deadline_s=30, what="the group to be active")
        yield
    finally:
        consumer.close()
