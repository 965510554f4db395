"""Two that write the catalog, as `sync` and an operator's command do: nothing is decided on what
the other one has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer

from mirrorfleet.core.errors import OutdatedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, FleetName, Link, SlotNumber
from mirrorfleet.core.names import service_id
from mirrorfleet.records.catalog import CatalogLink
from mirrorfleet.records.formats import FIRST_LEVEL, KNOWN_LEVEL
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.syncing.store import Store
from services.local.region import Region
from tests.faultkit.regions import address
from tests.faultkit.waiting import until
from tests.integration.sync.fleet import Hand, fresh

ANSWER_S = 30.0


def an_entry(source: str) -> CatalogLink:
    return CatalogLink(
        link=Link(ClusterAlias(source), ClusterAlias("west")),
        source_cluster=ClusterId(f"{source}-id"),
        target_cluster=ClusterId("west-id"),
        slots=(SlotNumber(0),),
    )


@pytest.fixture
def fleet() -> FleetName:
    return FleetName(fresh("catalog"))


@pytest.fixture
async def stores(on_west: Hand, fleet: FleetName) -> AsyncIterator[tuple[Store, Store]]:
    """Two that have read the same catalog, which has one entry, and taken the id in turn."""
    one, two = (Store(on_west.cluster, fleet, SystemClock()) for _ in range(2))
    await one.ensure_topics(1)
    await one.take()
    await one.refresh()
    await one.publish([an_entry("east")])
    await has_sources(two, {"east-id"})
    yield one, two
    one.close()
    two.close()


async def has_sources(store: Store, wanted: set[str]) -> None:
    """Wait until a reader finds these: a commit is told a moment before its marker is there."""

    async def look() -> bool:
        await store.refresh()
        return set(store.book.links) == wanted

    await until(look, deadline_s=10, what=f"the catalog to hold {wanted}")


async def has_level(store: Store, level: int) -> None:
    """The same of a level."""

    async def look() -> bool:
        await store.refresh()
        return store.level == level

    await until(look, deadline_s=10, what=f"the catalog to have level {level}")


async def test_what_follows_from_a_catalog_that_another_one_has_changed_is_not_written(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    await one.publish([an_entry("north")])

    with pytest.raises(OutdatedError, match="changed by another process since it was read"):
        await two.publish([an_entry("south")])

    await has_sources(two, {"east-id", "north-id"})
    await two.publish([an_entry("south")])  # decided anew, it is written
    await has_sources(one, {"east-id", "north-id", "south-id"})


async def test_a_level_that_was_raised_meanwhile_is_not_set_back(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    await one.raise_level(FIRST_LEVEL)  # as a fleet of an older build has it
    await has_level(two, FIRST_LEVEL)
    await one.raise_level(KNOWN_LEVEL)

    with pytest.raises(OutdatedError):
        await two.publish([an_entry("south")])

    await has_level(two, KNOWN_LEVEL)


async def test_a_transaction_that_was_only_begun_by_another_one_changes_nothing(
    stores: tuple[Store, Store], west: Region, fleet: FleetName
) -> None:
    one, two = stores
    begun = Producer(
        {"bootstrap.servers": address(west), "transactional.id": service_id(fleet, "sync")}
    )
    begun.init_transactions(ANSWER_S)
    begun.begin_transaction()
    begun.produce(control_topic(fleet, ControlKind.CATALOG), key=b"k", value=b"v")
    assert begun.flush(ANSWER_S) == 0

    await two.publish([an_entry("south")])

    await has_sources(one, {"east-id", "south-id"})
