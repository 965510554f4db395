"""What a link of which the source cannot be watched says, and to whom."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.records.catalog import CatalogLink
from services.lag import link as module
from services.lag.service import LagService
from tests.faultkit.waiting import until
from tests.unit.records.making import LINK
from tests.unit.standby.test_demotion import Fleet

if TYPE_CHECKING:
    import pytest


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
