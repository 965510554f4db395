"""What a link of which the source cannot be watched says, and to whom."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.records.catalog import CatalogLink
from services.lag import link as module
from services.lag.service import LagService
from tests.fakes.clock import HandClock
from tests.faultkit.waiting import until
from tests.unit.lagging.making import entry
from tests.unit.records.making import LINK
from tests.unit.standby.test_demotion import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.core.ports import Clock


async def test_a_source_that_became_another_cluster_is_told_and_seen_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering = "rebuilt"

    async def meet(cluster: Cluster) -> None:
        # as the metadata of the first answer does: what was opened once is that cluster for ever
        cluster._cluster_id = cluster._cluster_id or ClusterId(answering)

    monkeypatch.setattr(Cluster, "open", meet)
    monkeypatch.setattr(module, "_TROUBLE_S", 0.01)
    fleet, catalog = Fleet(), CatalogView()
    ids = ClusterId("east"), ClusterId("west")
    catalog.apply(CatalogLink(link=LINK, source_cluster=ids[0], target_cluster=ids[1], slots=()))
    watch = LagService(fleet.context)._links[LINK]
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(watch.run(catalog))
        await until(lambda: watch.view.trouble, deadline_s=5, what="the refusal")
        watch.check()
        told = fleet.context.health.reasons()[f"source ends {LINK}"]
        assert "alias east means cluster rebuilt now" in told

        answering = "east"
        await until(lambda: watch.view.looked_at, deadline_s=5, what="a look")
        watch.check()
        assert f"source ends {LINK}" not in fleet.context.health.reasons()
        assert watch.view.refused is watch._ends.refused
        looking.cancel()


async def test_heartbeats_of_a_slot_that_another_instance_watches_tell_how_long_they_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(_: Cluster) -> None:
        await asyncio.Event().wait()

    async def follow(
        _: ClusterSettings,
        topic_of: Callable[[], str | None],
        clock: Clock,
        on_beat: Callable[[float, int], None],
    ) -> None:
        await until(lambda: topic_of() == "east.heartbeats", deadline_s=5, what="their copy")
        on_beat(clock.monotonic(), 30)

    monkeypatch.setattr(Cluster, "open", away)
    monkeypatch.setattr(module, "follow_beats", follow)
    service, catalog = LagService(Fleet().context), CatalogView()
    watch, board = service._links[LINK], service._board
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(watch.run(catalog))
        catalog.apply(entry(topic="heartbeats"))
        board.want(catalog.partitions.values(), 0)
        await until(lambda: board.propagation, deadline_s=5, what="a propagation time")
        looking.cancel()

    assert not len(board)
    assert board.propagation == {LINK: 30}


def test_what_a_heartbeat_took_is_not_known_while_its_hosts_clock_is_ahead() -> None:
    service = LagService(Fleet().context)
    watch, told = service._links[LINK], service._board.propagation

    watch._beat_seen(100.0, 30)
    assert told == {LINK: 30}
    watch._beat_seen(101.0, -1)
    assert told == {}
    watch._beat_seen(102.0, 0)
    assert told == {LINK: 0}


def test_what_the_last_heartbeat_took_is_forgotten_though_our_clock_was_set_back() -> None:
    clock = HandClock(wall_ms=1_000_000)
    service = LagService(replace(Fleet().context, clock=clock))
    watch, told = service._links[LINK], service._board.propagation
    watch._beat_seen(clock.monotonic(), 30)

    clock.wall_ms, clock.seconds = 0, 109.0
    watch.check()
    assert told == {LINK: 30}
    clock.seconds = 111.0
    watch.check()
    assert told == {}
