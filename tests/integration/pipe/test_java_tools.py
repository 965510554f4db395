"""Kafka's own Java tools read our topics, and say what we say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.offsets.homes import GroupOffset
from tests.faultkit.waiting import wait_until
from tests.integration.pipe.java import MirrorTools, mirror_tools, printed
from tests.integration.pipe.pipe import Pipe, Places


@pytest.fixture(scope="module")
def tools(pipe: Pipe) -> Iterator[MirrorTools]:
    with mirror_tools(pipe.directory) as made:
        yield made


def by_hand(pipe: Pipe, fleet: str, places: Places) -> Places:
    """By brute force over what two readers of librdkafka are handed."""
    upstream = {"b": ("a", "orders"), "c": ("b", "a.orders")}[fleet]
    target = f"{upstream[0]}.{upstream[1]}"
    sources, copies = pipe.read(*upstream), pipe.read(fleet, target)
    wanted: Places = {}
    for group, offsets in places.items():
        wanted[group] = {}
        for at, (offset, metadata) in offsets.items():
            read = sum(1 for one in sources[at.partition] if one.offset < offset)
            copy = copies[at.partition]
            there = copy[read].offset if read < len(copy) else copy[-1].offset + 1
            wanted[group][TopicPartition(target, at.partition)] = GroupOffset(there, metadata)
    return wanted


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("fleet", "source"), [("b", "a"), ("c", "b")])
def test_kafkas_translate_offsets_gives_our_numbers(
    pipe: Pipe, tools: MirrorTools, fleet: str, source: str
) -> None:
    places = pipe.places[source]
    wanted = by_hand(pipe, fleet, places)

    def translated(group: str) -> dict[TopicPartition, GroupOffset]:
        java = tools.translate_offsets(pipe.regions[fleet], source, group)
        assert java == wanted[group], group
        return java

    for group, offsets in places.items():
        java = wait_until(
            partial(translated, group),
            deadline_s=60,
            what=f"the checkpoints of {group}",
            ignoring=(AssertionError,),
        )
        ours = {
            TopicPartition(f"{source}.{at.topic}", at.partition): pipe.translated(fleet, at, offset)
            for at, (offset, _) in offsets.items()
        }
        assert {at: one.offset for at, one in java.items()} == ours


@pytest.mark.timeout(240)
def test_kafkas_mirror_client_sees_the_whole_pipe(pipe: Pipe, tools: MirrorTools) -> None:
    a, b, c = (pipe.regions[name] for name in "abc")

    wait_until(
        lambda: tools.upstream_clusters(c) == {"a", "b"},
        deadline_s=60,
        what="heartbeats of the whole pipe on c",
    )
    assert [tools.upstream_clusters(region) for region in (a, b)] == [set(), {"a"}]
    assert [tools.replication_hops(c, name) for name in "abc"] == [2, 1, -1]
    assert [tools.replication_hops(b, name) for name in "abc"] == [1, -1, -1]
    assert tools.replication_hops(a, "b") == -1
    assert tools.topics(c) == {
        "heartbeats": {"b.heartbeats", "b.a.heartbeats"},
        "checkpoints": {"b.checkpoints.internal"},
        "remote": {"b.a.orders", "b.heartbeats", "b.a.heartbeats"},
    }


@pytest.mark.timeout(240)
def test_mirrormakers_formatters_print_our_topics(pipe: Pipe) -> None:
    b = pipe.regions["b"]
    first = printed(b, "a.heartbeats", "HeartbeatFormatter", 2)
    pattern = r"Heartbeat\{sourceClusterAlias=a, targetClusterAlias=b, timestamp=\d{13}\}"
    assert len(first) == 2
    assert all(re.fullmatch(pattern, line) for line in first), first

    points = printed(b, "a.checkpoints.internal", "CheckpointFormatter", 2 * len(pipe.places["a"]))
    (line,) = [one for one in points if "consumerGroupId=g-a-7," in one and "orders-1" in one]
    at = TopicPartition("a.orders", 1)
    place = pipe.places["a"]["g-a-7"][TopicPartition("orders", 1)]
    target = by_hand(pipe, "b", {"g-a-7": pipe.places["a"]["g-a-7"]})["g-a-7"][at].offset
    assert line == (
        f"Checkpoint{{consumerGroupId=g-a-7, topicPartition=a.orders-1,"
        f" upstreamOffset={place.offset}, downstreamOffset={target}, metadata=m7}}"
    )

    syncs = printed(b, "mm2-offset-syncs.a.internal", "OffsetSyncFormatter", 2)
    pattern = r"OffsetSync\{topicPartition=\S+-\d, upstreamOffset=\d+, downstreamOffset=\d+\}"
    assert all(re.fullmatch(pattern, line) for line in syncs), syncs
