"""Topics, configs, offsets and control topics on a real broker."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.admin import (
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import (
    AlterOp,
    ConfigChange,
    ConfigSource,
    describe_configs,
    incremental_alter_configs,
)
from mirrorfleet.kafka.control import (
    ControlRecord,
    ControlTail,
    ControlWriter,
    read_up_to,
)
from mirrorfleet.kafka.controller import Mode
from mirrorfleet.kafka.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    ListedOffset,
    OffsetSpec,
    delete_records,
    list_offsets,
    offset_for_leader_epoch,
)
from services.local.region import Region
from tests.contract.kafka.making import new_topic
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.waiting import until

NOW = 4_000_000_000_000  # later than any broker's time, so that no record is old


def now() -> int:
    return time.time_ns() // 1_000_000


def code(result: object) -> ErrorCode:
    assert isinstance(result, BrokerError)
    return result.code


async def test_a_cluster_says_who_it_is(cluster: Cluster) -> None:
    described = await describe_cluster(cluster)
    assert described.cluster_id == cluster.cluster_id
    assert [b.node_id for b in described.brokers] == [1]
    assert cluster.features["transaction.version"] == 2


async def test_each_topic_of_a_creation_has_a_verdict_of_its_own(cluster: Cluster) -> None:
    there = (await new_topic(cluster)).name
    fresh = f"client-{uuid4().hex[:8]}"
    asked = [NewTopic(name=name, partitions=1) for name in (fresh, there, "not a name")]
    found = await create_topics(cluster, asked)
    assert found[fresh] is None
    assert code(found[there]) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code(found["not a name"]) is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_validated_creation_creates_nothing(cluster: Cluster) -> None:
    name = f"client-{uuid4().hex[:8]}"
    asked = [NewTopic(name=name, partitions=1)]
    assert await create_topics(cluster, asked, mode=Mode.VALIDATE_ONLY) == {name: None}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await cluster.topic(name, refresh=True)


async def test_topics_grow_and_never_shrink(cluster: Cluster) -> None:
    topic = await new_topic(cluster)
    assert await create_partitions(cluster, {topic.name: 3}) == {topic.name: None}

    async def grown() -> bool:
        return len((await cluster.topic(topic.name, refresh=True)).partitions) == 3

    await until(grown, deadline_s=10, what="three partitions")
    again = await create_partitions(cluster, {topic.name: 3})  # as when the answer was lost
    assert again == {topic.name: None}
    checked = await create_partitions(cluster, {topic.name: 3}, mode=Mode.VALIDATE_ONLY)
    assert code(checked[topic.name]) is ErrorCode.INVALID_PARTITIONS
    shrunk = await create_partitions(cluster, {topic.name: 1})
    assert code(shrunk[topic.name]) is ErrorCode.INVALID_PARTITIONS


async def test_configs_are_set_and_reset_one_by_one(cluster: Cluster) -> None:
    topic = (await new_topic(cluster, configs={"cleanup.policy": "compact"})).name
    changes = [
        ConfigChange("retention.ms", AlterOp.SET, "12345678"),
        ConfigChange("cleanup.policy", AlterOp.DELETE),
    ]
    assert await incremental_alter_configs(cluster, {topic: changes}) == {topic: None}
    keys = ("retention.ms", "cleanup.policy")

    async def changed() -> bool:
        found = (await describe_configs(cluster, [topic], keys=keys))[topic]
        assert not isinstance(found, BrokerError)
        return [(found[k].value, found[k].source) for k in keys] == [
            ("12345678", ConfigSource.TOPIC),
            ("delete", ConfigSource.DEFAULT),
        ]

    await until(changed, deadline_s=10, what="both changes")


async def test_an_unknown_topic_has_no_configs_and_is_not_waited_for(cluster: Cluster) -> None:
    found = await describe_configs(cluster, ["client-nowhere"])
    assert code(found["client-nowhere"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_deleted_topic_is_gone(cluster: Cluster) -> None:
    topic = (await new_topic(cluster)).name
    found = await delete_topics(cluster, [topic, "client-nowhere"])
    assert found[topic] is None
    assert code(found["client-nowhere"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def gone() -> bool:
        return topic not in (await cluster.metadata(None)).topics

    await until(gone, deadline_s=10, what="the topic to go")


async def test_offsets_by_place_and_by_time(cluster: Cluster) -> None:
    topic = await new_topic(cluster, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    at = TopicPartition(topic.name, 0)
    writer = ControlWriter(cluster)
    for step in range(3):
        await writer.write(at, [(b"k", b"v")], NOW + 10 * step)
    asked = {
        "first": (EARLIEST, ListedOffset(0, -1, 0)),
        "end": (LATEST, ListedOffset(3, -1, 0)),
        "between": (OffsetSpec(NOW + 1), ListedOffset(1, NOW + 10, 0)),
        "later": (OffsetSpec(NOW + 21), ListedOffset(-1, -1, -1)),
    }
    for name, (spec, expected) in asked.items():
        assert await list_offsets(cluster, {at: spec}) == {at: expected}, name
    epochs = await offset_for_leader_epoch(cluster, {at: 0})
    assert epochs == {at: EpochEnd(0, 3)}
    assert await delete_records(cluster, {at: 2}) == {at: 2}
    assert await list_offsets(cluster, {at: EARLIEST}) == {at: ListedOffset(2, -1, 0)}


async def test_a_partition_that_is_not_there_is_waited_for_until_the_deadline(
    cluster: Cluster,
) -> None:
    topic = (await new_topic(cluster)).name
    there, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 5)
    found = await list_offsets(cluster, {there: LATEST, nowhere: LATEST}, deadline_s=2.0)
    assert found[there] == ListedOffset(0, -1, 0)
    assert code(found[nowhere]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- control topics


async def written(cluster: Cluster) -> tuple[str, list[tuple[int, int, bytes, bytes | None]]]:
    """A topic of two partitions with four records, one a tombstone, one without a key."""
    topic = (await new_topic(cluster, partitions=2)).name
    writer = ControlWriter(cluster)
    now_ms = now()
    await writer.write(TopicPartition(topic, 0), [(b"a", b"1"), (b"b", None)], now_ms)
    await writer.write(TopicPartition(topic, 1), [(b"c", b"3")], now_ms)
    await writer.write(TopicPartition(topic, 0), [(b"a", b"4")], now_ms)
    return topic, [(0, 0, b"a", b"1"), (0, 1, b"b", None), (0, 2, b"a", b"4"), (1, 0, b"c", b"3")]


def shown(records: list[ControlRecord]) -> list[tuple[int, int, bytes, bytes | None]]:
    return sorted((r.partition, r.offset, r.key, r.value) for r in records)


async def test_a_control_topic_is_read_to_its_end(east: Region, cluster: Cluster) -> None:
    topic, expected = await written(cluster)
    found = await read_to_end(east.settings(), topic)
    assert shown(found) == expected
    assert all(abs(r.timestamp - now()) < 60_000 for r in found)
    assert {r.topic for r in found} == {topic}


async def test_what_a_clock_that_is_hours_ahead_dates_is_written_without_a_time(
    east: Region, cluster: Cluster
) -> None:
    topic = (await new_topic(cluster)).name
    writer = ControlWriter(cluster)

    await writer.write(TopicPartition(topic, 0), [(b"a", b"1")], now() + 2 * 3_600_000)

    found = await read_to_end(east.settings(), topic)
    assert [(r.value, r.timestamp) for r in found] == [(b"1", -1)]


async def test_an_empty_control_topic_is_read_to_its_end_at_once(
    east: Region, cluster: Cluster
) -> None:
    topic = (await new_topic(cluster)).name
    assert await read_to_end(east.settings(), topic) == []


async def test_a_tail_says_when_it_has_caught_up_and_goes_on(
    east: Region, cluster: Cluster
) -> None:
    topic, expected = await written(cluster)
    caught_up: list[int] = []
    seen: list[ControlRecord] = []
    async with ControlTail(
        east.settings(), topic, on_caught_up=lambda: caught_up.append(len(seen))
    ) as tail:
        async for record in tail:
            seen.append(record)
            if len(seen) == 4:
                assert tail.caught_up
                at = TopicPartition(topic, 1)
                await ControlWriter(cluster).write(at, [(b"d", b"5")], now())
            if len(seen) == 5:
                break
    assert shown(seen) == [*expected, (1, 1, b"d", b"5")]
    assert caught_up == [4]


async def test_an_empty_tail_has_caught_up_without_a_record(east: Region, cluster: Cluster) -> None:
    topic = (await new_topic(cluster)).name
    caught_up: list[bool] = []
    async with ControlTail(
        east.settings(), topic, on_caught_up=lambda: caught_up.append(True)
    ) as tail:
        await tail.read_to_end()
        assert tail.caught_up


async def test_a_tail_whose_topic_is_deleted_tells(east: Region, cluster: Cluster) -> None:
    topic, expected = await written(cluster)
    async with ControlTail(east.settings(), topic) as tail:
        assert shown(await tail.read_to_end()) == expected
        await delete_topics(cluster, [topic])
        with pytest.raises(ConnectionLostError, match=f"{topic}: its cluster does not tell of it"):
            async with asyncio.timeout(20):
                await anext(tail)


async def test_a_control_topic_that_is_not_there_is_an_error_at_once(east: Region) -> None:
    with pytest.raises(BrokerError, match="client-nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        await read_to_end(east.settings(), "client-nowhere")


async def test_a_read_up_to_a_record_stops_there(cluster: Cluster) -> None:
    topic, _ = await written(cluster)
    seen: list[bytes] = []

    def is_b(record: ControlRecord) -> bool:
        seen.append(record.key)
        return record.key == b"b"

    await read_up_to(cluster, TopicPartition(topic, 0), is_b, deadline_s=10)
    assert seen == [b"a", b"b"]


async def test_a_read_up_to_an_offset_shows_all_before_it(cluster: Cluster) -> None:
    topic, _ = await written(cluster)
    seen: list[int] = []

    def never(record: ControlRecord) -> bool:
        seen.append(record.offset)
        return False

    at = TopicPartition(topic, 0)
    await read_up_to(cluster, at, never, deadline_s=10, end_offset=3)
    assert seen == [0, 1, 2]
    await read_up_to(cluster, at, never, deadline_s=10, end_offset=0)
    assert seen == [0, 1, 2]


async def test_a_read_up_to_a_record_that_never_comes_ends_at_its_deadline(
    cluster: Cluster,
) -> None:
    topic, _ = await written(cluster)
    at = TopicPartition(topic, 0)
    with pytest.raises(DeadlineError, match=r"gave up after 2 s, at offset 3\.$"):
        await read_up_to(cluster, at, lambda _: False, deadline_s=2.0)


async def test_a_large_write_is_cut_into_batches_that_any_topic_takes(
    east: Region, cluster: Cluster
) -> None:
    topic = (await new_topic(cluster, configs={"max.message.bytes": "700000"})).name
    entries = [(b"%d" % n, bytes(100_000)) for n in range(12)]
    at = TopicPartition(topic, 0)
    await ControlWriter(cluster).write(at, entries, now())
    found = await read_to_end(east.settings(), topic)
    assert [r.key for r in found] == [b"%d" % n for n in range(12)]


async def test_a_write_that_can_never_succeed_says_why(cluster: Cluster) -> None:
    topic = (await new_topic(cluster, configs={"max.message.bytes": "1000"})).name
    at = TopicPartition(topic, 0)
    with pytest.raises(BrokerError, match=r"writing .*-0: MESSAGE_TOO_LARGE"):
        await ControlWriter(cluster).write(at, [(b"k", bytes(2000))], now())
