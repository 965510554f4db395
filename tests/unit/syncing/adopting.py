"""A topic that its target had before its first copy, and a target that may refuse its configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigChange
from mirrorfleet.planning.observed import SourceView, TargetTopic, TargetView
from mirrorfleet.records.catalog import CatalogAcl, CatalogEntry
from mirrorfleet.syncing import making
from mirrorfleet.syncing.anew import AnewRequests
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.side import Side
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching.source import SourceWatch
from mirrorfleet.watching.target import TargetWatch
from tests.fakes.clock import HandClock
from tests.unit.planning.samples import EAST, OTHER_ID, SOURCE_ID, WEST, copied, orders

COPY = "east.orders"
DEFAULTS = {"compression.type": "gzip"}
LACKING = f"{COPY}: compression.type: gzip -> producer"


def an_estate(acls: str = "ignore") -> Estate:
    """One link, one rule that adopts."""
    text = f"""
estate: e
clusters: {{east: {{bootstrap: "h:1"}}, west: {{bootstrap: "h:2"}}}}
links:
  - from: east
    to: west
    slots: 2
    acls: {acls}
    rules: [{{name: all, topics: [orders], adopt: true}}]
"""
    return parse_estate(text, "e.yaml", directory=Path())


def two_sources() -> Estate:
    """Two links into one target."""
    text = """
estate: e
clusters:
  east: {bootstrap: "h:1"}
  west: {bootstrap: "h:2"}
  north: {bootstrap: "h:3"}
links:
  - {from: east, to: west, slots: 2, rules: [{name: all, topics: [orders], adopt: true}]}
  - {from: north, to: west, slots: 2, rules: [{name: all, topics: [stock]}]}
"""
    return parse_estate(text, "e.yaml", directory=Path())


class Clusters:
    """Both ends of the link; the copy is compressed by its target, which is asked not to."""

    acls = "ignore"
    """The policy of the link."""

    def __init__(self, *, readable: bool = True) -> None:
        self.readable = readable
        """Whether we may read the configs of the copy."""
        self.refuses: ErrorCode | None = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self.shown = True
        """Whether we may see the copy."""
        self.compression = "gzip"
        self.asked = 0
        self.there = True
        """Whether the source has the topic."""
        self.topic_id = SOURCE_ID
        self.looks = 0
        """How often the source was looked at."""
        self.created: list[str] = []

    async def source(self) -> SourceView:
        self.looks += 1
        if not self.there:
            return SourceView(cluster=EAST, topics={})
        topic = orders(1, topic_id=self.topic_id)
        wanted = {topic.name: topic.topic_id}
        return SourceView(cluster=EAST, topics={topic.name: topic}, wanted=wanted)

    async def target(self, *_: object) -> TargetView:
        topics = {COPY: self._copy()} if self.shown else {}
        return TargetView(cluster=WEST, brokers=1, topics=topics, defaults=DEFAULTS)

    def _copy(self) -> TargetTopic:
        found = copied(1, empty=False, configs={"compression.type": self.compression})
        return found if self.readable else replace(found, configs={}, overrides=None)

    async def create_topics(
        self, _: Cluster, topics: Sequence[NewTopic], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        exists = ErrorCode.TOPIC_ALREADY_EXISTS
        self.created += [each.name for each in topics]
        return {each.name: BrokerError(exists, f"create {each.name}") for each in topics}

    async def alter_configs(
        self, _: Cluster, changes: Mapping[str, Sequence[ConfigChange]], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        self.asked += 1
        if self.refuses is not None:
            return {name: BrokerError(self.refuses, f"configs of {name}") for name in changes}
        self.compression = changes[COPY][0].value or ""
        return dict.fromkeys(changes)


class Slow(Clusters):
    """Makes the copy in a minute, in which the topic is made again at the source."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.clock = clock
        self.shown, self.compression = False, "producer"

    async def create_topics(
        self, _: Cluster, topics: Sequence[NewTopic], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        self.clock.seconds += 60
        self.topic_id, self.shown = OTHER_ID, True
        return {each.name: None for each in topics}


def connect(monkeypatch: pytest.MonkeyPatch, clusters: Clusters) -> None:
    """Every fleet made from now on finds these clusters, and a catalog that takes all."""

    async def nothing(*_: object) -> None:
        pass

    async def no_requests(_: AnewRequests) -> dict[object, object]:
        return {}

    async def no_topics(*_: object) -> tuple[list[object], dict[str, int]]:
        return [], {}

    async def none_made(*_: object) -> list[str]:
        return []

    async def publish(
        store: Store, entries: Iterable[CatalogEntry], _: Iterable[CatalogAcl] = ()
    ) -> None:
        for entry in entries:
            store.book.learn(entry)

    monkeypatch.setattr(SourceWatch, "look", lambda _: clusters.source())
    monkeypatch.setattr(TargetWatch, "look", clusters.target)
    monkeypatch.setattr(making, "create_topics", clusters.create_topics)
    monkeypatch.setattr(making, "incremental_alter_configs", clusters.alter_configs)
    monkeypatch.setattr(AnewRequests, "open", no_requests)
    monkeypatch.setattr(Store, "refresh", nothing)
    monkeypatch.setattr(Store, "wanted_topics", no_topics)
    monkeypatch.setattr(Store, "mend_topics", none_made)
    monkeypatch.setattr(Store, "publish", publish)


def opened(fleet: FleetSync) -> Side:
    """The only link, both ends known."""
    (side,) = fleet.sides
    fleet.target._cluster_id, side.cluster._cluster_id = WEST, EAST
    side.source_cluster = EAST
    fleet.give_slots(side)
    return side
