"""What a reader of the catalog keeps of it."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.records.catalog import (
    CatalogLoss,
    CatalogPartition,
    CatalogState,
    Removed,
    partition_key,
)
from tests.unit.records.making import LINK, identity

LOSS = CatalogLoss(cause="source-truncated", first=10, end=20)
FIRST = CatalogPartition(
    identity=identity(0),
    link=LINK,
    source_topic="orders",
    target_topic="east.orders",
    slot=SlotNumber(1),
)
SECOND = replace(FIRST, identity=identity(0, incarnation=1), loss=LOSS)


def removed(entry: CatalogPartition) -> CatalogPartition:
    return replace(entry, state=CatalogState.REMOVED)


def test_of_incarnations_that_ended_the_losses_alone_are_kept() -> None:
    view = CatalogView()
    third = replace(SECOND, identity=identity(0, incarnation=2))
    for entry in (FIRST, removed(FIRST), SECOND, removed(SECOND), third):
        view.apply(entry)

    assert view.of_link(LINK) == [third]
    assert view.losses == {SECOND.identity: LOSS, third.identity: LOSS}


def test_a_tombstone_takes_the_loss_away() -> None:
    view = CatalogView()
    view.apply(removed(SECOND))
    view.apply(Removed(partition_key(SECOND.identity), SECOND.identity))

    assert view.losses == {}
