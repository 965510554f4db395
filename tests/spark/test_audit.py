"""What the audit reads, and up to where: no Spark in here."""

from __future__ import annotations

from argparse import Namespace
from typing import cast

from pyspark.sql import Row

from spark.broker import Admin, Range
from spark.jobs.integrity_audit import Settled, held, settles

ALL = Namespace(first=0, end=None)
OURS, THEIRS = {0: Range(5, 100)}, {0: Range(7, 90)}
STOOD = Settled({0: 80}, {0: 85})


def entry(start: str = "earliest", incarnation: int = 0, partition: int = 0) -> Row:
    return Row(partition=partition, start=start, incarnation=incarnation)


def begins(row: Row, asked: Namespace = ALL) -> tuple[object, ...]:
    """(source start, source from the map, target from the map)."""
    ((_, first, *_, ours, theirs),) = held(asked, [row], OURS, THEIRS, STOOD)
    return first, ours, theirs


def test_a_side_begins_where_the_start_says_or_with_the_map() -> None:
    assert begins(entry()) == (5, False, False)
    assert begins(entry(incarnation=1)) == (5, False, True)
    assert begins(entry("offset:40", 2)) == (40, False, True)
    assert begins(entry("latest")) == (5, True, True)
    assert begins(entry("timestamp:9000")) == (5, True, True)
    assert begins(entry("offset:40"), Namespace(first=60, end=None)) == (60, False, True)


def test_it_ends_where_both_sides_stood_as_far_as_that_is_known() -> None:
    rows = held(Namespace(first=0, end=50), [entry(), entry(partition=1)], OURS, THEIRS, STOOD)
    assert rows == [(0, 5, 50, 7, 90, 80, 85, False, False)]

    ((*_, source, target, _, _),) = held(ALL, [entry()], OURS, THEIRS, Settled({}, {}))
    assert (source, target) == (None, None)


class Writing:
    """A map of two partitions, of which an open transaction ends after a few looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def written(self, _topic: str) -> dict[int, int]:
        return {0: 10, 1: 20}

    def ranges(self, _topic: str) -> dict[int, Range]:
        self.left -= 1
        return {0: Range(0, 30), 1: Range(0, 20 if self.left < 0 else 19)}


def test_the_map_is_read_when_what_was_written_can_be_read() -> None:
    admin = Writing(looks=2)

    assert settles(cast("Admin", admin), "segments", poll_s=0)
    assert admin.left == -1


def test_a_transaction_that_stays_open_is_not_waited_for_for_ever() -> None:
    assert not settles(cast("Admin", Writing(looks=10**9)), "segments", within_s=0, poll_s=0)
