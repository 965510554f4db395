"""A partition that is paused in the catalog is not fetched, and what it has is sent."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.records.catalog import CatalogState
from tests.unit.copying.making import entry, partition_of, slot


def test_a_paused_partition_is_fetched_by_nobody_until_it_is_resumed() -> None:
    made = slot(entry(0), entry(1))
    paused = partition_of(made)
    pace = paused.pace

    made.renew(replace(paused.entry, state=CatalogState.PAUSED))
    assert paused not in made.wanted(pace, 0.0)
    assert len(made.wanted(pace, 0.0)) == 1

    made.renew(replace(paused.entry, state=CatalogState.ACTIVE))
    assert paused in made.wanted(pace, 0.0)
