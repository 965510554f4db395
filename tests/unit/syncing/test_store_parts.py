"""A catalog that is written in several transactions is read, and gone on with, between any two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.records.catalog import CatalogConfig, CatalogPartition, CatalogState
from mirrorfleet.records.formats import FIRST_LEVEL
from mirrorfleet.syncing import store
from tests.unit.views.making import entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.records.catalog import CatalogEntry

CONFIG = CatalogConfig(generation=4, format_level=FIRST_LEVEL)


def made_again(topic: str, partitions: int) -> list[CatalogPartition]:
    """All ends first, and then what follows, as they are planned."""
    old = [entry(number, topic=topic) for number in range(partitions)]
    new = [replace(each, identity=replace(each.identity, incarnation=1)) for each in old]
    return [*(replace(each, state=CatalogState.REMOVED) for each in old), *new]


def parts(changed: Sequence[CatalogEntry]) -> list[list[tuple[str, int, int]]]:
    return [
        [
            (each.source_topic, each.identity.partition, each.identity.incarnation)
            for each in part
            if isinstance(each, CatalogPartition)
        ]
        for part in store._parts(changed)
    ]


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_RECORDS_A_WRITE", 4)


def test_of_a_topic_all_partitions_become_known_at_once() -> None:
    """Those that are left out would count as new, and be copied whole."""
    orders = [entry(number) for number in range(3)]
    stock = [entry(number, topic="stock") for number in range(2)]

    assert parts([*orders, *stock, CONFIG]) == [
        [("orders", 0, 0), ("orders", 1, 0), ("orders", 2, 0)],
        [("stock", 0, 0), ("stock", 1, 0)],
    ]


def test_of_a_topic_that_is_too_much_no_end_is_known_without_what_follows() -> None:
    assert parts([*made_again("orders", 3), CONFIG]) == [
        [("orders", 0, 0), ("orders", 0, 1), ("orders", 1, 0), ("orders", 1, 1)],
        [("orders", 2, 0), ("orders", 2, 1)],
    ]


def test_what_is_not_much_is_written_at_once() -> None:
    assert len(parts([entry(), entry(topic="stock"), CONFIG])) == 1
    assert parts([]) == []
