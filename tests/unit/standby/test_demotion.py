"""What the services of one active process tell after another one has got their place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.pending import Kind, PlannedChange
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.runtime.clock import SystemClock, SystemDice
from mirrorfleet.runtime.entry import Context
from mirrorfleet.runtime.health import Health, Role
from mirrorfleet.runtime.lifecycle import Lifecycle, Service, Serving, Stop
from mirrorfleet.runtime.metrics import Exposition, Metrics
from mirrorfleet.standby.leading import Leadership
from mirrorfleet.syncing.fleet import FleetSync
from services.checkpoint.service import CATALOG, MAP, CheckpointService
from services.heartbeat.beats import Beats
from services.heartbeat.service import HeartbeatService
from services.sync.service import SyncService
from tests.faultkit.waiting import until
from tests.unit.config.making import RIGHT, parse
from tests.unit.standby.test_leading import NOTHING, PLACE, Group


@dataclass
class Fleet:
    """A fleet without clusters; the place in it is the test's to give."""

    group: Group = field(default_factory=Group)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        estate, lifecycle = parse(RIGHT, env={"WEST_PASSWORD": "x"}), Lifecycle()
        lifecycle.move(Serving())
        west = ClusterAlias("west")
        self.context = Context(
            estate=estate,
            target=west,
            fleet=estate.fleet_of(west),
            settings={},
            owner="test",
            url="",
            clock=SystemClock(),
            dice=SystemDice(),
            metrics=self.metrics,
            health=Health(lifecycle),
        )

    def leadership(self, context: Context, _: Cluster, service: str) -> Leadership:
        return Leadership(self.group, context.health, context.clock, service)

    def tells(self, gauge: str) -> list[str]:
        """What of a gauge is not nought."""
        lines = Exposition(self.metrics).text().decode().splitlines()
        found = [line for line in lines if line.startswith(f"mirrorfleet_{gauge}{{")]
        return [line for line in found if not line.endswith(" 0.0")]

    async def demote(self) -> None:
        self.group.give(NOTHING)
        await self.has_role(Role.STANDBY)

    async def has_role(self, role: Role) -> None:
        await until(lambda: self.context.health.role is role, deadline_s=5, what=role)

    @asynccontextmanager
    async def serving(self, service: Service) -> AsyncIterator[None]:
        """`service` at work, and active."""
        stop = Stop(self.context.clock, 5.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(service.serve(stop))
            await self.has_role(Role.STANDBY)
            self.group.give(PLACE)
            await self.has_role(Role.ACTIVE)
            yield
            stop.set()


async def for_ever(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


async def nothing(*_: object, **__: object) -> None:
    pass


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    for name in ("sync", "checkpoint", "heartbeat"):
        monkeypatch.setattr(f"services.{name}.service.leadership", made.leadership)
    monkeypatch.setattr(Cluster, "open", nothing)
    return made


async def test_a_demoted_sync_tells_nothing_of_its_last_look(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FleetSync, "open_source", nothing)
    monkeypatch.setattr(FleetSync, "learn_defaults", for_ever)
    service = SyncService(fleet.context)
    async with fleet.serving(service):
        (report,) = service.reports
        report.looked_at, report.pending = fleet.context.clock.monotonic() - 5, 1
        report.held = (Held("a", Reason.NAME, "too long"),)
        report.drift = (PlannedChange("east->west", Kind.GROW, "east.a"),)
        gauges = ["seconds_since_sync", "sync_topic_faults", "sync_drift", "sync_pending_changes"]
        assert [len(fleet.tells(each)) for each in gauges] == [1, 1, 1, 1]
        await fleet.demote()
        assert [fleet.tells(each) for each in gauges] == [[], [], [], []]
        assert [each.looked_at for each in service.reports] == [None]
        assert fleet.context.health.reasons() == {}


async def test_a_demoted_checkpoint_tells_nothing_of_its_last_look(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.checkpoint.service.follow_catalog", for_ever)
    service = CheckpointService(fleet.context)
    async with fleet.serving(service):
        (link,) = service._links.values()
        link.report.looked_at = fleet.context.clock.monotonic() - 5
        link.report.refused, link.report.checkpoints = {"g": "no"}, 3
        link.shut_out = {"g"}
        assert len(fleet.tells("seconds_since_checkpoint")) == 1
        await fleet.demote()
        assert fleet.tells("seconds_since_checkpoint") == []
        assert (link.report.refused, link.report.checkpoints) == ({}, 3)
        assert link.shut_out == set()


async def test_a_demoted_checkpoint_says_what_is_missing_still(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.checkpoint.service.follow_catalog", for_ever)
    async with fleet.serving(CheckpointService(fleet.context)):
        missing = {CATALOG: "not read yet", MAP: "not read yet"}
        looks = {"link east->west": "not looked at yet"}
        assert fleet.context.health.reasons() == missing | looks
        await fleet.demote()
        assert fleet.context.health.reasons() == missing


async def test_a_demoted_heartbeat_tells_nothing_of_its_last_one(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Beats, "_write", nothing)
    async with fleet.serving(HeartbeatService(fleet.context)):
        gauge = "seconds_since_heartbeat"
        await until(lambda: fleet.tells(gauge), deadline_s=5, what="a heartbeat")
        fleet.context.health.active.hold("heartbeats on west", "no answer")
        await fleet.demote()
        assert fleet.context.health.reasons() == {}
        assert fleet.tells(gauge) == []
        assert fleet.tells("heartbeats_total")
