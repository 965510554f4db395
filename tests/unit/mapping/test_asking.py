"""Questions that the map cannot answer are refused in words."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.mapping.asking import (
    MOST_OFFSET,
    Direction,
    parse_partition,
    stated_partition,
    translate,
)
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogPartition
from tests.unit.offsets.making import run_of
from tests.unit.records.making import LINK, identity

FORWARD, BACK = Direction.TO_TARGET, Direction.TO_SOURCE


def copies(*, copied: int) -> Copies:
    entry = CatalogPartition(
        identity=identity(0),
        link=LINK,
        source_topic="orders",
        target_topic="east.orders",
        slot=SlotNumber(1),
    )
    index = OffsetIndex()
    if copied:
        index.add(identity(0), [run_of(0, copied, 0)])
    return Copies([entry], index)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("orders", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a-b", TopicPartition("a-b", 0)),
        ("-1", TopicPartition("-1", 0)),
        ("orders-\u00b2", TopicPartition("orders-\u00b2", 0)),
        ("orders-" + "9" * 5000, TopicPartition("orders-" + "9" * 5000, 0)),
    ],
)
def test_a_partition_is_named_as_kafka_prints_it(text: str, found: TopicPartition) -> None:
    assert parse_partition(text) == found


def test_what_is_to_be_changed_names_its_partition() -> None:
    assert stated_partition("orders-3") == TopicPartition("orders", 3)
    with pytest.raises(RefusedError, match="'orders' names no partition") as refused:
        stated_partition("orders")
    assert "orders-0" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("topic", "offset", "copied", "way", "said"),
    [
        ("orders", -1, 5, FORWARD, "-1 is no offset"),
        ("orders", MOST_OFFSET + 1, 5, FORWARD, "is no offset"),
        ("carts", 1, 5, FORWARD, "no source partition carts-0 is copied by this link"),
        ("orders", 1, 5, BACK, "no target partition orders-0 is copied by this link"),
        ("orders", 1, 0, FORWARD, "nothing of orders-0 is copied yet"),
    ],
)
def test_what_has_no_answer_is_refused(
    topic: str, offset: int, copied: int, way: Direction, said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        translate(copies(copied=copied), TopicPartition(topic, 0), offset, way)


def test_the_largest_offset_is_the_end_of_the_copy() -> None:
    found = translate(copies(copied=5), TopicPartition("orders", 0), MOST_OFFSET, FORWARD)
    assert (found.offset, str(found.found), found.copied_to) == (5, "end", 5)
