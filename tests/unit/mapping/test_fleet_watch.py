"""The offset map of a fleet that is watched."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import ClusterAlias, FleetName, SourceOffset, TargetOffset
from mirrorfleet.mapping import fleet_watch
from mirrorfleet.mapping.fleet_watch import ClusterWatch, FleetWatch
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.offsets.packing import Floor
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.runtime.clock import SystemClock
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

WEST, EAST, NORTH = (ClusterAlias(name) for name in ("west", "east", "north"))


async def test_what_both_logs_have_lost_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []

    async def look(
        _: LogFloors, sources: dict[str, object], entries: list[CatalogPartition]
    ) -> dict[PartitionIdentity, Floor]:
        asked.append(set(sources))
        low = Floor(SourceOffset(10**6), TargetOffset(10**6))
        return {each.identity: low for each in entries}

    monkeypatch.setattr(LogFloors, "look", look)
    monkeypatch.setattr(fleet_watch, "_FORGET_S", 0.0)
    cluster = cast("Cluster", SimpleNamespace())
    clusters = {alias: ClusterWatch(alias, cluster, SystemClock()) for alias in (WEST, EAST)}
    clusters[NORTH] = ClusterWatch(NORTH, None, SystemClock(), "no such file")
    watch = FleetWatch(
        clusters[WEST],
        FleetName("west"),
        SystemClock(),
        lambda _: None,
        sources=clusters,
        request_s=1,
        history_s=1,
    )
    for each in (entry(0), entry(1, state=CatalogState.REMOVED)):
        watch._shown.view.apply(each)
        watch.index.add(each.identity, [run_of(0, 5, 0), run_of(5, 9, 6)])

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._forget(cluster))
        await until(lambda: watch.index.pieces == 2, deadline_s=5, what="shorter maps")
        task.cancel()

    assert asked[0] == {"west", "east"}
