"""Another cluster at an address that was ours: believed where the estate names the address."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConnectionLostError, RefusedError
from mirrorfleet.core.ids import ClusterId, FleetName, Link
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.mapping.catalog import CatalogView, open_source
from mirrorfleet.records.catalog import CatalogLink
from tests.contract.kafka.test_faults_on_fake import settings
from tests.fakes import broker as fake
from tests.fakes.broker import FakeBroker


async def test_an_address_that_came_to_belong_to_another_cluster_is_refused() -> None:
    async with FakeBroker() as broker, Cluster(settings(broker.bootstrap)) as cluster:
        broker.cluster_id = "stranger"
        with pytest.raises(RefusedError, match="cluster fake-cluster is now stranger"):
            await cluster.metadata(())


async def test_the_address_of_a_broker_that_another_cluster_has_now_is_passed_over() -> None:
    async with FakeBroker() as first, FakeBroker() as moved:
        first.brokers = {2: moved.address}
        async with Cluster(settings(first.bootstrap)) as cluster:
            moved.cluster_id = "stranger"
            first.brokers = {3: first.address}
            await cluster.metadata(())
            assert list(cluster.brokers) == [3]
        assert len(moved.asked(fake.METADATA)) == 1


async def test_an_address_of_another_cluster_is_asked_nothing_but_who_it_is() -> None:
    async with (
        FakeBroker() as ours,
        FakeBroker() as moved,
        Cluster(settings(ours.bootstrap, moved.bootstrap)) as cluster,
    ):
        moved.cluster_id = "stranger"
        ours.brokers = {2: moved.address}
        await cluster.metadata(())
        ours.brokers = {3: ours.address}
        await cluster.metadata(())
        before = len(moved.seen)
        await ours.die()
        with pytest.raises(ConnectionLostError):
            await find_coordinator(cluster, "a-group", CoordinatorKind.GROUP, 2.0)
        assert len(moved.seen) == before


async def test_another_cluster_at_a_former_broker_says_nothing_while_the_estates_are_away() -> None:
    async with FakeBroker() as first, FakeBroker() as moved:
        first.brokers = {2: moved.address}
        async with Cluster(settings(first.bootstrap)) as cluster:
            moved.cluster_id = "stranger"
            await first.die()
            with pytest.raises(ConnectionLostError):
                await cluster.metadata(())


def catalog_of(source: Cluster, known: str) -> CatalogView:
    view, here = CatalogView(), ClusterId("target")
    link = Link(source.settings.alias, source.settings.alias)
    view.apply(
        CatalogLink(link=link, source_cluster=ClusterId(known), target_cluster=here, slots=())
    )
    return view


async def test_a_source_that_was_opened_as_another_cluster_is_taken_once_it_is_right() -> None:
    async with FakeBroker() as broker, Cluster(settings(broker.bootstrap)) as source:
        view, fleet = catalog_of(source, "right"), FleetName("f")
        broker.cluster_id = "right"

        with pytest.raises(RefusedError):
            await open_source(source, view, fleet)
        await open_source(source, view, fleet)

        assert source.cluster_id == "right"


async def test_the_right_source_stays_known_while_another_cluster_has_its_address() -> None:
    async with FakeBroker() as broker, Cluster(settings(broker.bootstrap)) as source:
        view, fleet = catalog_of(source, "fake-cluster"), FleetName("f")
        broker.cluster_id = "stranger"

        for _ in range(2):
            with pytest.raises(RefusedError, match="cluster fake-cluster is now stranger"):
                await open_source(source, view, fleet)
        assert source.cluster_id == "fake-cluster"
