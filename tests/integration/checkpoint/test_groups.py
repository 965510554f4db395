"""Groups find the first record that they have not committed, on real brokers and whole services."""

from __future__ import annotations

import asyncio
import json
import random
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Confluent

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import GroupState, commit_offsets, fetch_offsets, list_groups
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.mapping.asking import load_map
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.records import checkpoint, offset_sync
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.records.offset_sync import OffsetSync
from mirrorfleet.runtime.clock import SystemClock
from services.cli.__main__ import main
from services.local.ports import free_ports
from services.local.region import Region
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.regions import address
from tests.faultkit.waiting import until
from tests.integration.checkpoint.coming_home import check_a_group_comes_home
from tests.integration.checkpoint.fleet import (
    PACK_AT_LEAST,
    PARTITIONS,
    Places,
    Way,
    World,
    make_topics,
    next_value,
    random_places,
    write_records,
)
from tests.integration.checkpoint.going_over import active_on, check_a_group_goes_over

Clusters = dict[str, Cluster]


@pytest.fixture
async def clusters(east: Region, west: Region) -> AsyncIterator[Clusters]:
    async with Cluster(east.settings()) as one, Cluster(west.settings()) as other:
        yield {"east": one, "west": other}


@pytest.fixture
def world(east: Region, west: Region, tmp_path: Path) -> World:
    made = World.between("chk", east, west, tmp_path)
    made.write_estate()
    return made


async def set_places(cluster: Cluster, places: Places) -> None:
    answers = await commit_offsets(cluster, places)
    assert set(answers.values()) == {None}


async def offsets_on(cluster: Cluster, way: Way, groups: Iterable[str]) -> Places:
    """Offsets of groups on the copies of one way."""
    found = await fetch_offsets(cluster, list(groups))
    prefix = way.there(way.name)
    return {
        group: {at: place for at, place in one.items() if at.topic.startswith(f"{prefix}-")}
        for group, one in found.items()
        if not isinstance(one, BrokerError)
    }


def expected(way: Way, places: Places) -> Places:
    """By brute force over what two readers of librdkafka are handed."""
    sources = {topic: way.log(topic) for topic in way.topics}
    copies = {topic: way.copy(topic) for topic in way.topics}
    found: Places = {}
    for group, offsets in places.items():
        found[group] = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            wanted = next_value(sources[topic][partition], offset)
            copy = copies[topic][partition]
            end = copy[-1].offset + 1
            target = next((one.offset for one in copy if one.value == wanted), end)
            found[group][TopicPartition(way.there(topic), partition)] = GroupOffset(
                target, metadata
            )
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


@pytest.mark.timeout(1500)
async def test_200_groups_go_on_both_ways_at_the_first_record_they_have_not_committed(
    world: World, clusters: Clusters, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(4)
    for way in world.ways:
        make_topics(way, dice)
    with world.running("sync", "mirror"):
        placed = await fill_and_place(world, clusters, dice, rounds=25)
        for way in world.ways:
            await check_offsets(way, clusters, dice, 20_000)  # nothing is packed yet
        with world.running("checkpoint"):
            for way, places in zip(world.ways, placed, strict=True):
                wanted = await wait_in_place(way, clusters, places)
                check_first_records(way, places)
                await check_mm2_topics(way, clusters, places, wanted)
                await check_packed(way, clusters)
                await check_offsets(way, clusters, dice, 20_000)
                check_translate(way)
    # every service is started again: the map is read from the archive, and the sources move on
    with world.running("sync", "mirror", "checkpoint"):
        moved = await fill_and_place(world, clusters, dice, rounds=10, before=placed)
        for way, places in zip(world.ways, moved, strict=True):
            await wait_in_place(way, clusters, places)
            await check_offsets(way, clusters, dice, 500_000)
            check_translate(way)
        there = world.ways[0]
        await asyncio.to_thread(check_commands, world, moved[0], capsys)
        await check_active_group_is_left_alone(world, there, clusters)
        await check_a_group_goes_over(world, clusters, capsys)
        await check_a_group_comes_home(world, clusters, capsys)


async def fill_and_place(
    world: World,
    clusters: Clusters,
    dice: random.Random,
    *,
    rounds: int,
    before: Sequence[Places] | None = None,
) -> list[Places]:
    """More records both ways, copied; then the groups at random places, never before the last."""
    for way in world.ways:
        write_records(way, dice, rounds)
    placed: list[Places] = []
    for number, way in enumerate(world.ways):
        way.wait_copied()
        places = random_places(world, way, dice)
        placed.append(places if before is None else forward_only(before[number], places))
        await set_places(clusters[way.source.name], placed[-1])
    return placed


async def wait_in_place(way: Way, clusters: Clusters, places: Places) -> Places:
    """Until the groups are on the target where they belong: there."""
    wanted = expected(way, places)

    async def in_place() -> bool:
        return await offsets_on(clusters[way.target.name], way, wanted) == wanted

    await until(in_place, deadline_s=60, what=f"200 groups in their places, {way.link}")
    return wanted


async def check_offsets(way: Way, clusters: Clusters, dice: random.Random, asked: int) -> None:
    """Random offsets of both sides, markers and removed records too, from the topics alone."""
    target, name = clusters[way.target.name], FleetName(way.name)
    entries = (await read_catalog(target, name)).of_link(way.link)
    follower = await load_map(target, name, {entry.slot for entry in entries}, SystemClock())
    copies = Copies(entries, follower.index)
    logs = [(topic, way.log(topic), way.copy(topic)) for topic in way.topics]
    each = asked // (len(logs) * PARTITIONS)
    for topic, source_logs, copy_logs in logs:
        for number in range(PARTITIONS):
            sources = [one.offset for one in source_logs[number]]
            targets = [one.offset for one in copy_logs[number]]
            at = TopicPartition(topic, number)
            for offset in dice.choices(range(sources[-1] + 5), k=each):
                forward = copies.to_target(at, offset)
                assert forward is not None
                index = bisect_left(sources, offset)
                wanted = targets[index] if index < len(targets) else targets[-1] + 1
                assert forward.offset == wanted, (at, offset)
            there = TopicPartition(way.there(topic), number)
            for offset in dice.choices(range(targets[-1] + 5), k=each):
                back = copies.to_source(there, offset)
                assert back is not None
                index = bisect_left(targets, offset)
                if index < len(sources):
                    assert back.offset == sources[index], (there, offset)
                else:
                    assert back.offset > sources[-1], (there, offset)


def forward_only(before: Places, after: Places) -> Places:
    return {
        group: {
            at: max(offset, after.get(group, {}).get(at, offset)) for at, offset in offsets.items()
        }
        for group, offsets in before.items()
    }


def check_first_records(way: Way, places: Places) -> None:
    """Real consumers of some of the groups."""
    sources = {topic: way.log(topic) for topic in way.topics}
    checked = 0
    for group, offsets in list(places.items())[:3]:
        for at, place in offsets.items():
            wanted = next_value(sources[at.topic][at.partition], place.offset)
            if wanted is not None:
                there = TopicPartition(way.there(at.topic), at.partition)
                assert first_read(way.target, group, there) == wanted, (group, at, place)
                checked += 1
    assert checked > 10


async def check_mm2_topics(way: Way, clusters: Clusters, places: Places, wanted: Places) -> None:
    alias, cluster = way.link.source, clusters[way.target.name]
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
        if isinstance(sync, OffsetSync) and sync.partition.topic in way.topics:
            syncs[sync.partition] = (sync.source, sync.target)
    assert syncs == {
        TopicPartition(topic, number): (source[-1].offset, copy[-1].offset)
        for topic in way.topics
        for number, (source, copy) in enumerate(zip(way.log(topic), way.copy(topic), strict=True))
    }


async def check_packed(way: Way, clusters: Clusters) -> None:
    """The fleet's own packer has freed segments."""
    cluster = clusters[way.target.name]
    slots = [TopicPartition(way.control("segments"), slot) for slot in range(2)]

    async def freed() -> bool:
        starts = await list_offsets(cluster, dict.fromkeys(slots, EARLIEST))
        ends = await list_offsets(cluster, dict.fromkeys(slots, LATEST))
        pairs = [(starts[slot], ends[slot]) for slot in slots]
        return all(
            not isinstance(start, BrokerError)
            and not isinstance(end, BrokerError)
            and (start.offset > 0 or end.offset < PACK_AT_LEAST)
            for start, end in pairs
        ) and any(not isinstance(start, BrokerError) and start.offset > 0 for start, _ in pairs)

    await until(freed, deadline_s=20, what="segments to be packed")


def check_translate(way: Way) -> None:
    """Every 23rd offset of both sides, by HTTP, against brute force."""
    for topic in way.topics:
        logs = zip(way.log(topic), way.copy(topic), strict=True)
        for partition, (source, copy) in enumerate(logs):
            for offset in range(0, source[-1].offset + 1, 23):
                found = ask(way, topic, partition, offset, "to-target")
                assert next_value(copy, found) == next_value(source, offset), (topic, offset)
            for offset in range(0, copy[-1].offset + 1, 23):
                found = ask(way, way.there(topic), partition, offset, "to-source")
                assert next_value(source, found) == next_value(copy, offset), (topic, offset)


def ask(way: Way, topic: str, partition: int, offset: int, direction: str) -> int:
    path = f"/translate?source={way.source.name}&topic={topic}&partition={partition}"
    path += f"&offset={offset}&direction={direction}"
    answer = way.services["checkpoint"].get_patiently(path)
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
    check_without_source(world, rows, capsys)

    way = world.ways[0]
    topic = way.topics[1]
    source, copy = way.log(topic)[1], way.copy(topic)[1]
    half = source[len(source) // 2].offset
    assert main(["offsets", "translate", f"{topic}-1", str(half), *estate]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert next_value(copy, row["other_offset"]) == next_value(source, half)
    assert main(["offsets", "translate", "none-1", "5", *estate]) == 1
    assert "no source partition none-1 is copied" in capsys.readouterr().err


async def check_active_group_is_left_alone(world: World, way: Way, clusters: Clusters) -> None:
    """Its home is where it is active; the others go on."""
    awake, asleep = f"{world.name}-g1", f"{world.name}-g2"
    source, target = clusters[way.source.name], clusters[way.target.name]
    topic = way.topics[0]
    there = [TopicPartition(way.there(topic), number) for number in range(PARTITIONS)]
    ends = [log[-1].offset + 1 for log in way.log(topic)]
    copies = [log[-1].offset + 1 for log in way.copy(topic)]
    at_end = {TopicPartition(topic, n): GroupOffset(ends[n]) for n in range(PARTITIONS)}

    async def moved() -> bool:
        offsets = (await offsets_on(target, way, [asleep]))[asleep]
        return [offsets[at].offset for at in there if at in offsets] == copies

    async with active_on(way.target, there[0].topic, target, awake):
        refused = (await commit_offsets(target, {awake: {there[0]: GroupOffset(1)}}))[awake]
        assert isinstance(refused, BrokerError)
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        before = await offsets_on(target, way, [awake])
        await set_places(source, {awake: at_end, asleep: at_end})
        await until(moved, deadline_s=20, what="the sleeping group to move")
        assert await offsets_on(target, way, [awake]) == before
        status = way.services["checkpoint"].status()
        assert '"home": "target", "why": "it has members on the target"' in json.dumps(status)
        listed = await list_groups(target)
        assert (listed[awake].state, listed[asleep].state) == (GroupState.STABLE, GroupState.EMPTY)


def check_without_source(
    world: World, rows: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same answers when the source is lost, from the target alone."""
    (nobody,) = free_ports(1)
    lost = world.directory / "lost.yaml"
    here = address(world.ways[0].source)
    lost.write_text(world.estate.read_text().replace(here, f"127.0.0.1:{nobody}"))
    command = ["groups", "--group", str(rows[0]["group"]), "--estate", str(lost)]

    assert main([*command, "--target", "west", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    failover = ["failover", str(rows[0]["group"]), "--estate", str(lost), "--target", "west"]
    assert main([*failover, "--within", "0"]) == 0
    assert "ready as last seen" in capsys.readouterr().out
    fields = ("topic", "partition", "source_offset", "translated", "target_offset", "target_state")
    assert [[row[each] for each in fields] for row in told] == [
        [row[each] for each in fields] for row in rows
    ]
    assert all("east does not answer; as of" in row["unchecked"] for row in told)
