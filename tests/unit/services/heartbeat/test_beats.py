"""The topic of heartbeats gets as many replicas as its cluster has room for, whoever is down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.load import parse_estate
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterAlias, ClusterId
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.metadata import Broker, Metadata, PartitionMeta, TopicMeta
from mirrorfleet.records.heartbeat import TOPIC
from services.heartbeat import beats as module
from services.heartbeat.beats import Beats
from tests.fakes.clock import HandClock

ESTATE = """
estate: e
clusters: {east: {bootstrap: "h:1"}, west: {bootstrap: "h:2"}}
links: [{from: east, to: west, rules: [{name: all, topics: [a]}]}]
"""
PARTITION = PartitionMeta(1, 0, (1, 2, 3), (1,), (2, 3), ErrorCode.NONE)


MISSING = TopicMeta(TOPIC, NO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, {})


def a_topic(name: str) -> TopicMeta:
    return TopicMeta(name, NO_TOPIC_ID, ErrorCode.NONE, False, {0: PARTITION})


@pytest.mark.parametrize(("there", "created"), [(False, [3]), (True, [])])
async def test_replicas_of_brokers_that_are_down_count_and_a_topic_that_is_there_is_left(
    monkeypatch: pytest.MonkeyPatch, *, there: bool, created: list[int]
) -> None:
    asked: list[int] = []

    async def metadata(names: Sequence[str] | None) -> Metadata:
        found = a_topic("orders") if names is None else a_topic(TOPIC) if there else MISSING
        return Metadata(ClusterId("W"), 1, {1: Broker(1, "h", 9092)}, {found.name: found})

    async def create(_: object, topics: Sequence[NewTopic]) -> dict[str, None]:
        asked.extend(topic.replication_factor for topic in topics)
        return {topic.name: None for topic in topics}

    cluster = SimpleNamespace(metadata=metadata)
    monkeypatch.setattr(module, "Cluster", lambda _: cluster)
    monkeypatch.setattr(module, "create_topics", create)
    estate = parse_estate(ESTATE, "e.yaml", directory=Path())
    beats = Beats(cluster_settings(estate, ClusterAlias("west"), "c"), [], 1.0, HandClock())

    await beats._prepare()

    assert asked == created
