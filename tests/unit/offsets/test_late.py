"""Copies that begin behind records of others, and the groups for which that matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.late import LateCopies, unset_words
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.segments import Run
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import COPY, point

LATE = run_of(50, 100, 500)
"""Source offset 50 is the first that was copied, behind 500 records of others."""


def copies(*runs: Run) -> Copies:
    index = OffsetIndex()
    index.add(identity(), runs)
    return Copies([entry()], index)


@pytest.mark.parametrize(
    ("run", "source", "start", "is_late"),
    [
        (LATE, 10, 0, True),
        (LATE, 49, 499, True),
        (LATE, 49, 500, False),
        (LATE, 49, 501, False),
        (LATE, 50, 0, False),
        (LATE, 60, 0, False),
        (LATE, 100, 0, False),
        (run_of(50, 100, 0), 10, 0, False),
        (run_of(0, 100, 500), 0, 0, False),
    ],
    ids=[
        "before the copy",
        "just before it",
        "retention took all of the others",
        "retention took more",
        "at the first record",
        "in the copy",
        "at its end",
        "nothing is before the copy",
        "all was copied",
    ],
)
def test_a_group_before_the_first_copied_record_may_lack_what_is_before_it_on_the_target(
    run: Run,
    source: int,
    start: int,
    is_late: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    late = LateCopies(copies(run), {COPY: start})

    found = late.among([point(500, source)])

    assert found == ({COPY: start} if is_late else {})
    assert late.among([point(500, source)]) == found


def test_a_copy_without_a_record_is_not_late() -> None:
    assert LateCopies(copies(), {COPY: 7}).among([point(7, 10)]) == {}


def test_nothing_is_lacking_between_two_histories() -> None:
    """Only before the first record of the oldest one, which is at source offset 2."""
    index, again = OffsetIndex(), replace(identity(), incarnation=1)
    index.add(identity(), [run_of(2, 8, 3), run_of(12, 20, 9)])
    index.add(again, [run_of(10, 30, 25)])
    loss = CatalogLoss(cause="target-truncated", first=10, end=20)
    late = LateCopies(Copies([entry(identity=again, loss=loss)], index), {COPY: 0})

    assert [source for source in range(31) if late.among([point(25, source)])] == [0, 1]


def test_people_are_told_where_it_stands_and_what_helps() -> None:
    said = unset_words([point(500, 10), point(500, 11)])

    assert said.startswith("no offset is set in east.orders-0 and 1 more: the group stands at 10,")
    assert said.endswith("Set it there by hand, or let it read on at the source.")
    assert "and 1 more" not in unset_words([point(500, 10)])
