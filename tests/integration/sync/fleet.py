"""A sync service in the test's own loop, and what the test does to the two clusters around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterAlias, FleetName, TopicPartition
from mirrorfleet.kafka.acls import create_acls, delete_acls, describe_acls
from mirrorfleet.kafka.admin import NewTopic, create_partitions, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import (
    AlterOp,
    ConfigChange,
    ConfigSource,
    describe_configs,
    incremental_alter_configs,
)
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.records import catalog, events
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.events import Event
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.clock import SystemClock, SystemDice
from mirrorfleet.runtime.entry import Context
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.lifecycle import Lifecycle, Serving, Stop
from mirrorfleet.runtime.metrics import Exposition, Metrics
from services.local.region import Region
from services.sync.service import SyncService
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.hold import IS_LONG
from tests.faultkit.waiting import until

PROMISED_S: Final = 5.0 if IS_LONG else 25.0
"""Within this a change must be in the catalog. The short form runs on any machine."""
_NUMBERS: Final = count(1)


def fresh(word: str) -> str:
    """A name that no other test uses; the regions are shared."""
    return f"{word}{next(_NUMBERS)}"


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster by another address than its region's own."""

    bootstrap: tuple[str, ...]


def an_estate(
    east: Region | Address,
    west: Region | Address,
    *links: str,
    fleet: str = "",
    aliases: tuple[str, str] = ("east", "west"),
    sync: str = "{period_s: 0.5, change_s: 20}",  # longer than a busy machine's disk stands still
) -> Estate:
    """`links` are YAML flow mappings; `fleet` is the start of both fleets' names."""
    one, two = aliases
    name = fleet or fresh("f")
    text = "\n".join(
        [
            "estate: test",
            "clusters:",
            f"  {one}: {{bootstrap: '{east.bootstrap[0]}', fleet: {name}-{one}}}",
            f"  {two}: {{bootstrap: '{west.bootstrap[0]}', fleet: {name}-{two}}}",
            "links:",
            *(f"  - {link}" for link in links),
            f"services: {{sync: {sync}}}",
        ]
    )
    return parse_estate(text, "estate.yaml", directory=Path.cwd())


def a_link(topics: str, *, source: str = "east", target: str = "west", more: str = "") -> str:
    """A link with one rule."""
    rule = f"{{name: all, topics: ['{topics}']{more and ', ' + more}}}"
    return f"{{from: {source}, to: {target}, slots: 4, rules: [{rule}]}}"


@dataclass(slots=True)
class Running:
    """A service at work."""

    service: SyncService
    stop: Stop
    fleet: FleetName
    health: Health
    metrics: Metrics

    def held(self) -> dict[str, str]:
        """Held topics and why."""
        return {each.topic: each.reason for each in self.service.reports[0].held}

    def skipped(self) -> int:
        """Copies that are rightly not copied back."""
        return self.service.reports[0].skipped

    def metric(self, name: str) -> list[str]:
        """What `/metrics` says of one."""
        text = Exposition(self.metrics).text().decode()
        return [line for line in text.splitlines() if line.startswith(f"mirrorfleet_{name}")]

    def looks(self) -> bool:
        """Whether each link was looked at."""
        return all(report.looked_at is not None for report in self.service.reports)


def a_context(estate: Estate, target: str) -> Context:
    """A context as `runtime.entry` makes it."""
    lifecycle = Lifecycle()
    lifecycle.move(Serving())
    return Context(
        estate=estate,
        target=ClusterAlias(target),
        fleet=estate.fleet_of(target),
        settings=estate.services.get("sync", {}),
        owner="test",
        url="",
        clock=SystemClock(),
        dice=SystemDice(),
        metrics=Metrics(),
        health=Health(lifecycle),
    )


@asynccontextmanager
async def syncing(estate: Estate, target: str = "west") -> AsyncIterator[Running]:
    """The sync of the target's fleet, after its first look."""
    context = a_context(estate, target)
    running = Running(
        SyncService(context),
        Stop(context.clock, 5.0),
        context.fleet,
        context.health,
        context.metrics,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(running.service.serve(running.stop))
        try:
            await until(running.looks, deadline_s=60, what="the first look")
            yield running
        finally:
            running.stop.set()


@dataclass(slots=True)
class Hand:
    """What an operator does on one cluster."""

    cluster: Cluster
    made: list[str] = field(default_factory=list)

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(
            name=name, partitions=partitions, replication_factor=1, configs=configs or {}
        )
        errors = await create_topics(self.cluster, [topic])
        assert errors == {name: None}

    async def grow(self, name: str, partitions: int) -> None:
        assert await create_partitions(self.cluster, {name: partitions}) == {name: None}

    async def write(self, name: str, value: bytes = b"v") -> None:
        writer = ControlWriter(self.cluster)
        await writer.write(TopicPartition(name, 0), [(b"k", value)], 1_700_000_000_000)
        writer.close()

    async def topics(self) -> dict[str, int]:
        """Partition counts by name."""
        found = (await self.cluster.metadata(None)).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    async def config(self, topic: str, *keys: str) -> dict[str, str | None]:
        answer = (await describe_configs(self.cluster, [topic], keys=keys))[topic]
        assert isinstance(answer, dict), answer
        return {name: value.value for name, value in answer.items()}

    async def alter(self, topic: str, **values: str | None) -> None:
        """Set configs (with '_' for '.'), or with None take them away."""
        changes = [
            ConfigChange(name.replace("_", "."), AlterOp.DELETE if v is None else AlterOp.SET, v)
            for name, v in values.items()
        ]
        assert await incremental_alter_configs(self.cluster, {topic: changes}) == {topic: None}

    async def overrides(self, topic: str) -> dict[str, str | None]:
        """The configs that were set on a topic."""
        answer = (await describe_configs(self.cluster, [topic]))[topic]
        assert isinstance(answer, dict), answer
        return {n: v.value for n, v in answer.items() if v.source is ConfigSource.TOPIC}

    async def give(self, *acls: AclBinding) -> None:
        assert set((await create_acls(self.cluster, acls)).values()) == {None}

    async def take_back(self, *acls: AclBinding) -> None:
        assert set((await delete_acls(self.cluster, acls)).values()) == {None}

    async def acls(self, names: Iterable[str]) -> set[AclBinding]:
        """The ACLs whose resource has one of these names, but those of `sync` itself."""
        found, wanted = await describe_acls(self.cluster), set(names)
        return {each for each in found if each.name in wanted and each.principal != "User:sync"}

    async def raw_catalog(self, fleet: FleetName) -> list[tuple[bytes, bytes | None]]:
        """Every record of the catalog, in order."""
        topic = control_topic(fleet, ControlKind.CATALOG)
        return [(r.key, r.value) for r in await read_to_end(self.cluster.settings, topic)]

    async def entries(self, fleet: FleetName) -> list[CatalogPartition]:
        """Partitions in the catalog that are to be copied."""
        last = {key: catalog.decode(key, value) for key, value in await self.raw_catalog(fleet)}
        found = [each for each in last.values() if isinstance(each, CatalogPartition)]
        return [each for each in found if each.state is not CatalogState.REMOVED]

    async def copies(self, fleet: FleetName) -> list[tuple[str, str, int]]:
        """(source topic, target topic, partition), sorted."""
        return sorted(
            (each.source_topic, each.target_topic, each.identity.partition)
            for each in await self.entries(fleet)
        )

    async def events(self, fleet: FleetName) -> list[Event]:
        topic = control_topic(fleet, ControlKind.EVENTS)
        records = await read_to_end(self.cluster.settings, topic)
        found = [events.decode(record.value) for record in records]
        # what a broker that stands still has got and not answered comes twice
        return [*dict.fromkeys(event for event in found if isinstance(event, Event))]

    async def shows(self, fleet: FleetName, copies: list[tuple[str, str, int]]) -> None:
        """Wait for exactly these copies in the catalog."""

        async def same() -> bool:
            return await self.copies(fleet) == copies

        await until(same, deadline_s=PROMISED_S, what=f"{copies} in the catalog")

    async def tells(self, fleet: FleetName, *kinds: str) -> list[Event]:
        """Wait for events of exactly these kinds, in any order."""

        async def told() -> list[Event]:
            found = await self.events(fleet)
            return found if sorted(each.kind for each in found) == sorted(kinds) else []

        return await until(told, deadline_s=PROMISED_S, what=f"events {kinds}")


@asynccontextmanager
async def hand_on(region: Region, user: str = "admin") -> AsyncIterator[Hand]:
    """An operator's hand on a region."""
    async with Cluster(region.settings(user)) as cluster:
        yield Hand(cluster)
