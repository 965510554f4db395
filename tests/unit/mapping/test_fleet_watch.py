"""The offset map of a fleet that is watched."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import ClusterAlias, FleetName, SourceOffset, TargetOffset
from mirrorfleet.mapping import fleet_watch
from mirrorfleet.mapping.fleet_watch import ClusterWatch, FleetWatch
from mirrorfleet.offsets.packing import Floor
from mirrorfleet.runtime.clock import SystemClock
from tests.faultkit.waiting import until
from tests.unit.offsets.making import PARTITIONS, run_of

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.kafka.cluster import Cluster

WEST, EAST, NORTH = (ClusterAlias(name) for name in ("west", "east", "north"))


async def test_what_both_logs_have_lost_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []

    async def floors(sources: dict[str, object], *_: object) -> dict[object, Floor]:
        asked.append(set(sources))
        return {PARTITIONS[0]: Floor(SourceOffset(10**6), TargetOffset(10**6))}

    monkeypatch.setattr(fleet_watch, "log_floors", floors)
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
    watch.index.add(PARTITIONS[0], [run_of(0, 5, 0), run_of(5, 9, 6)])

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._forget(cluster))
        await until(lambda: watch.index.pieces == 1, deadline_s=5, what="a shorter map")
        task.cancel()

    assert asked[0] == {"west", "east"}
