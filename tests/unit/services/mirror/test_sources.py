"""A source that is another cluster now is trouble of its own link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition, CatalogState
from tests.faultkit.waiting import until
from tests.unit.config.making import RIGHT
from tests.unit.copying.making import LINK, entry, identity
from tests.unit.services.mirror.test_service import Worker

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.records.catalog import CatalogEntry

EAST, SOUTH, WEST = (ClusterAlias(name) for name in ("east", "south", "west"))
TWO: Final = (
    RIGHT.replace("  west:", '  south:\n    bootstrap: "127.0.0.1:39092"\n  west:', 1)
    + "  - {from: south, to: west, rules: [{name: all, topics: ['.*']}]}\n"
)


def published(link: Link, slot: SlotNumber) -> tuple[CatalogEntry, CatalogEntry]:
    """A link of the catalog, and a partition that it copies."""
    source = ClusterId(link.source)
    at = replace(identity(slot), source_cluster=source)
    return (
        CatalogLink(
            link=link, source_cluster=source, target_cluster=ClusterId(WEST), slots=(slot,)
        ),
        entry(link=link, slot=slot, identity=at),
    )


async def meet_by_alias(cluster: Cluster) -> None:
    """Each alias is the cluster of its name."""
    cluster._cluster_id = cluster._cluster_id or ClusterId(cluster.settings.alias)


async def until_south_is_held(worker: Worker) -> None:
    """Both links are in the catalog, and only east can be copied."""
    for number, link in enumerate((Link(SOUTH, WEST), LINK)):
        for each in published(link, SlotNumber(number)):
            worker.publish(each)
    await until(
        lambda: EAST in worker.service._sides and "source south" in worker.reasons,
        deadline_s=5,
        what="east to be copied, and south to be held",
    )


async def test_a_source_that_became_another_cluster_leaves_the_other_links_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering = {EAST: "east", SOUTH: "rebuilt", WEST: "west"}

    async def meet(cluster: Cluster) -> None:
        # as the metadata of the first answer does: what was opened once is that cluster for ever
        cluster._cluster_id = cluster._cluster_id or ClusterId(answering[cluster.settings.alias])

    worker = Worker(monkeypatch, TWO)
    monkeypatch.setattr(Cluster, "open", meet)
    sides = worker.service._sides
    async with worker.serving():
        await until_south_is_held(worker)
        assert list(sides) == [EAST]
        assert worker.reasons["source south"].startswith(
            "alias south means cluster rebuilt now, but the catalog of fleet west knows it as south"
        )

        answering[SOUTH] = "south"
        await until(lambda: SOUTH in sides, deadline_s=5, what="south at its address again")
        assert "source south" not in worker.reasons


async def test_a_source_whose_link_was_removed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    monkeypatch.setattr(Cluster, "open", meet_by_alias)
    async with worker.serving():
        await until_south_is_held(worker)
        _, copied = published(Link(SOUTH, WEST), SlotNumber(0))
        assert isinstance(copied, CatalogPartition)
        worker.publish(replace(copied, state=CatalogState.REMOVED))
        await until(
            lambda: "source south" not in worker.reasons, deadline_s=10, what="south to be let go"
        )
        worker.publish(copied)
        await until(lambda: "source south" in worker.reasons, deadline_s=5, what="it to be missed")


async def test_a_source_that_this_estate_does_not_know_yet_leaves_the_other_links_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`sync` has a newer estate, with one more link."""
    worker = Worker(monkeypatch)
    monkeypatch.setattr(Cluster, "open", meet_by_alias)
    async with worker.serving():
        await until_south_is_held(worker)
        assert "south" in worker.reasons["source south"]
