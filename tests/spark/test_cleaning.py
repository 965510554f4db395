"""What log cleaners take from two compacted topics, each when it likes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tests.spark.auditing import Audited, Record, topic
from tests.spark.frames import run


@pytest.fixture(scope="module")
def audited(session: SparkSession) -> Audited:
    return Audited(session)


AGAIN = topic(0, 1, 2, 1, 0)
"""The first two have a later record of their key."""
AGAIN_THERE = topic(0, 1, 2, 1, 0, start=100)


def without(side: Sequence[Record], *offsets: int) -> list[Record]:
    return [each for each in side if each[1] not in offsets]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [((0,), ()), ((), (101,)), ((0, 1), (100,)), ((0,), (101,))],
    ids=["source first", "target first", "source further", "each another"],
)
def test_what_one_cleaner_removed_before_the_other_is_not_missed_in_a_compacted_topic(
    audited: Audited, ours: tuple[int, ...], theirs: tuple[int, ...]
) -> None:
    sides = without(AGAIN, *ours), without(AGAIN_THERE, *theirs)

    assert audited.found(*sides, [run(0, 100, 5)], compacted=True) == []
    assert audited.found(*sides, [run(0, 100, 5)]) != []


def test_the_last_record_of_a_key_is_missed_in_a_compacted_topic_too(audited: Audited) -> None:
    found = audited.found(AGAIN, without(AGAIN_THERE, 102), [run(0, 100, 5)], compacted=True)
    assert [row[:2] for row in found] == [("missing", 2)]

    found = audited.found(without(AGAIN, 3), AGAIN_THERE, [run(0, 100, 5)], compacted=True)
    assert [row[0] for row in found] == ["extra"]


def test_a_tombstone_that_one_side_has_removed_is_not_missed_with_what_it_deleted(
    audited: Audited,
) -> None:
    def deleted(start: int) -> list[Record]:
        first, last = topic(0, 0, start=start)
        return [first, (*last[:5], None, last[6])]

    assert audited.found(deleted(0), [], [run(0, 100, 2)], compacted=True) == []
    assert audited.found([], deleted(100), [run(0, 100, 2)], compacted=True) == []
