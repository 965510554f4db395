"""What log cleaners take from two compacted topics, each when it likes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tests.spark.auditing import HELD, Audited, Record, topic
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


def deleted(start: int) -> list[Record]:
    """A record and the tombstone that deletes it."""
    first, last = topic(0, 0, start=start)
    return [first, (*last[:5], None, last[6])]


def test_a_tombstone_that_one_side_has_removed_is_not_missed_with_what_it_deleted(
    audited: Audited,
) -> None:
    assert audited.found(deleted(0), [], [run(0, 100, 2)], compacted=True) == []
    assert audited.found([], deleted(100), [run(0, 100, 2)], compacted=True) == []


def test_a_tombstone_that_was_lost_is_missed_while_what_it_deletes_is_there(
    audited: Audited,
) -> None:
    found = audited.found(deleted(0), deleted(100)[:1], [run(0, 100, 2)], compacted=True)
    assert [row[:2] for row in found] == [("missing", 1)]

    found = audited.found(deleted(0)[:1], deleted(100), [run(0, 100, 2)], compacted=True)
    assert [row[0] for row in found] == ["extra"]


def test_what_is_on_both_sides_and_differs_is_altered_in_a_compacted_topic_too(
    audited: Audited,
) -> None:
    spoiled = [(*row[:5], b"x", row[6]) if row[1] == 101 else row for row in AGAIN_THERE]

    assert audited.found(AGAIN, spoiled, [run(0, 100, 5)], compacted=True) == [
        ("altered", 1, 1, 101, 101, "value"),
    ]


def test_what_a_record_superseded_that_is_not_copied_yet_is_not_extra(audited: Audited) -> None:
    source, target = topic(0, 1, 0)[1:], topic(0, 1, start=100)

    assert audited.found(source, target, [run(0, 100, 2)], compacted=True) == []


BEFORE_THE_LAST = [(0, 0, 2, 100, 1000)]


def test_what_a_record_behind_the_end_superseded_is_not_missing(audited: Audited) -> None:
    source, target, runs = topic(0, 1, 0), topic(0, 1, 0, start=100), [run(0, 100, 3)]

    assert audited.found(source, target[1:], runs, held=BEFORE_THE_LAST, compacted=True) == []


def test_what_was_superseded_behind_the_end_by_what_is_gone_again_is_not_missed(
    audited: Audited,
) -> None:
    """The last record of the key is a tombstone, which one side has removed with all before it."""
    source = [*topic(0, 1), (*topic(0, start=2)[0][:5], None, None)]
    target = [*topic(0, 1, start=100), (*topic(0, start=102)[0][:5], None, None)]
    runs = [run(0, 100, 3)]

    assert audited.found(source, target[1:2], runs, held=BEFORE_THE_LAST, compacted=True) == []
    assert audited.found(source[1:2], target, runs, held=BEFORE_THE_LAST, compacted=True) == []


def test_what_was_never_copied_supersedes_nothing_over_there(audited: Audited) -> None:
    source, target, runs = topic(0, 1, 0), topic(1, start=101), [run(0, 100, 2)]

    found = audited.found(source, target, runs, compacted=True)
    assert [row[:2] for row in found] == [("missing", 0)]

    left_out = [("east->west", "orders", 0, 2, 3, None, "gap")]
    passed = [(*HELD[0], 3, 102, False, False)]
    found = audited.found(source, target, runs, left_out, passed, compacted=True)
    assert [row[:2] for row in found] == [("explained", 2), ("missing", 0)]


def test_where_only_the_source_is_compacted_the_target_lacks_nothing(audited: Audited) -> None:
    runs = [run(0, 100, 5)]

    assert audited.found(without(AGAIN, 0, 1), AGAIN_THERE, runs, source_compacted=True) == []

    found = audited.found(AGAIN, without(AGAIN_THERE, 100), runs, source_compacted=True)
    assert [row[:2] for row in found] == [("missing", 0)]
