"""What the audit reads, and up to where: no Spark in here."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import Row

from mirrorfleet.core.errors import RefusedError
from spark.broker import Admin, Range
from spark.jobs import integrity_audit
from spark.jobs.integrity_audit import (
    Settled,
    held,
    refuse_unmapped,
    settles,
    shared,
    told,
    why_not,
)
from spark.jobs.running import Job, NotIntactError
from spark.jobs.uncompared import refuse_gone, refuse_uncopied

ALL = Namespace(first=0, end=None)
OURS, THEIRS = {0: Range(5, 100)}, {0: Range(7, 90)}
STOOD = Settled({0: 80}, {0: 85})


def entry(start: str = "earliest", incarnation: int = 0, partition: int = 0) -> Row:
    return Row(partition=partition, start=start, incarnation=incarnation)


def begins(row: Row, asked: Namespace = ALL) -> tuple[object, ...]:
    """(source start, source from the map, target from the map)."""
    ((_, first, *_, ours, theirs),) = held(asked, [row], OURS, THEIRS, STOOD)
    return first, ours, theirs


def test_the_source_begins_where_the_start_says_and_the_target_with_the_map() -> None:
    assert begins(entry()) == (5, False, True)
    assert begins(entry(incarnation=1)) == (5, False, True)
    assert begins(entry("offset:40", 2)) == (40, False, True)
    assert begins(entry("latest")) == (5, True, True)
    assert begins(entry("timestamp:9000")) == (5, True, True)
    assert begins(entry("offset:40"), Namespace(first=60, end=None)) == (60, False, True)


def test_it_ends_where_both_sides_stood_as_far_as_that_is_known() -> None:
    rows = held(Namespace(first=0, end=50), [entry(), entry(partition=1)], OURS, THEIRS, STOOD)
    assert rows == [(0, 5, 50, 7, 90, 80, 85, False, True)]

    ((*_, source, target, _, _),) = held(ALL, [entry()], OURS, THEIRS, Settled({}, {}))
    assert (source, target) == (None, None)


def test_what_an_adopted_topic_had_before_its_copy_is_not_compared() -> None:
    """Nothing in the catalog says which topics were adopted."""
    ((*_, source_from_map, target_from_map),) = held(ALL, [entry()], OURS, THEIRS, STOOD)

    assert not source_from_map
    assert target_from_map


def has(source: int, target: int, mapped: int, partition: int = 0) -> Row:
    """What both sides and the map have of a partition of which nothing was compared."""
    return Row(
        partition=partition, source_records=source, target_records=target, mapped_records=mapped
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (has(0, 0, 0), "the source has no record of what is asked for"),
        (has(0, 7, 5), "the source has no record of what is asked for"),
        (has(3, 0, 0), "nothing of it is copied yet"),
        (has(3, 0, 5), "of what is asked for nothing is copied yet, or one side holds none of it"),
        (has(3, 7, 5), "of what is asked for nothing is copied yet, or one side holds none of it"),
        (has(3, 7, 0), "the offset map has nothing of it"),
    ],
)
def test_why_nothing_of_a_partition_was_compared_is_told_as_far_as_it_is_known(
    found: Row, why: str
) -> None:
    assert why_not(0, OURS, THEIRS, found).startswith(why)


def test_a_partition_that_one_side_does_not_have_is_told_with_the_side() -> None:
    assert why_not(0, {1: Range(0, 9)}, THEIRS, None) == "the source has no such partition"
    assert why_not(1, OURS, THEIRS, None) == "the target has no such partition"
    assert why_not(0, {}, THEIRS, None) == "the source has no such topic"
    assert why_not(0, OURS, {}, None) == "the target has no such topic"


def test_only_records_on_both_sides_that_the_map_knows_nothing_of_are_refused() -> None:
    fine = [None, has(3, 0, 0), has(0, 7, 0), has(0, 0, 0), has(3, 7, 5)]
    refuse_unmapped("orders", fine)

    with pytest.raises(RefusedError) as one:
        refuse_unmapped("orders", [*fine, has(3, 7, 0, partition=4)])
    with pytest.raises(RefusedError, match="So it is with 2 more of its partitions"):
        refuse_unmapped("orders", [has(3, 7, 0), *fine, has(1, 1, 0), has(2, 2, 0)])

    assert one.value.message == (
        "orders-4: 3 records of the source and 7 of the target, and the offset map has none of"
        " them: nothing was compared."
    )
    assert "mirrorfleet positions import" in one.value.hint


def test_of_partitions_that_nothing_copies_only_those_with_records_asked_for_are_refused() -> None:
    source = {0: Range(0, 9), 4: Range(5, 5), 5: Range(2, 8), 6: Range(0, 3), 7: Range(3, 20)}

    ours, rest = shared(Namespace(first=3, end=10), source, {0})
    refuse_uncopied("orders", "east->west", {4: rest[4], 6: rest[6]})
    with pytest.raises(NotIntactError) as refused:
        refuse_uncopied("orders", "east->west", rest)

    assert ours == {0: Range(0, 9)}
    assert refused.value.message == (
        "orders-5: the source has offsets 3..7, and nothing copies them over east->west: the"
        " catalog has no entry of this partition. So it is with 1 more of its partitions."
    )
    assert "`mirrorfleet plan` says why" in refused.value.hint


def test_records_of_the_map_in_a_partition_that_the_target_lacks_are_refused() -> None:
    refuse_gone("orders", "east->west", {})

    with pytest.raises(NotIntactError, match="orders-1: 5 records were copied over east->west"):
        refuse_gone("orders", "east->west", {3: 1, 1: 5})


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


@pytest.mark.parametrize("settled", [True, False])
def test_the_ledger_is_read_when_what_was_told_can_be_read_or_a_line_says_that_it_cannot(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, settled: bool
) -> None:
    """The commit that tells of a drop has one marker in the map and one in the ledger."""
    seen: list[str] = []

    def waits(_admin: object, topic: str) -> bool:
        seen.append(f"wait for {topic}")
        return settled

    monkeypatch.setattr(integrity_audit, "settles", waits)
    monkeypatch.setattr(integrity_audit, "happened", lambda _job: seen.append("read"))
    job = SimpleNamespace(target=SimpleNamespace(admin=None), topic=str)

    told(cast("Job", job))

    assert seen == ["wait for events", "read"]
    assert ("stays open in the gap ledger" in "".join(capsys.readouterr())) is not settled
