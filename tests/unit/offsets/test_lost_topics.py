"""A removed partition whose topic is gone is believed to be over, and never too early."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.offsets.floors import LostTopics, Seen, Sides
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from tests.unit.copying.making import entry, identity

THERE, GONE, UNSURE = Seen.THERE, Seen.GONE, Seen.UNSURE
BOTH = Sides(THERE, THERE)
LOST = Sides(GONE, THERE)
ONE = identity()
NEXT = replace(ONE, incarnation=1)
OTHER = replace(NEXT, source_topic_id=UUID(int=0xC))
REMOVED = entry(state=CatalogState.REMOVED)
"""The entry of `ONE`."""


def looks(*seen: Sides, others: tuple[CatalogPartition, ...] = ()) -> list[Sides | None]:
    """What is believed of `ONE`, look after look."""
    lost = LostTopics()
    return [lost.believed([REMOVED, *others], {ONE: sides}).get(ONE) for sides in seen]


def test_a_removed_partition_whose_topics_are_there_is_as_one_that_is_copied() -> None:
    assert looks(BOTH) == [BOTH]
    assert LostTopics().believed([entry()], {ONE: BOTH}) == {ONE: BOTH}


@pytest.mark.parametrize("sides", [LOST, Sides(THERE, GONE), Sides(GONE, GONE)])
def test_that_a_topic_is_gone_is_believed_when_two_looks_in_a_row_say_so(sides: Sides) -> None:
    assert looks(sides, sides, sides) == [None, sides, sides]


@pytest.mark.parametrize("between", [BOTH, Sides(UNSURE, THERE), Sides(GONE, GONE)])
def test_a_look_that_says_something_else_in_between_begins_anew(between: Sides) -> None:
    assert looks(LOST, between, LOST, LOST)[2:] == [None, LOST]


def test_a_look_at_which_the_partition_was_not_seen_begins_anew() -> None:
    lost = LostTopics()
    seen: list[dict[object, Sides]] = [{ONE: LOST}, {}, {ONE: LOST}]
    assert [lost.believed([REMOVED], each) for each in seen] == [{}, {}, {}]  # type: ignore[arg-type]  # keys of one type


def test_one_that_was_still_copied_at_the_look_before_is_not_over_yet() -> None:
    lost = LostTopics()
    assert [lost.believed([each], {ONE: LOST}) for each in (entry(), REMOVED)] == [{}, {}]


@pytest.mark.parametrize("other", [Sides(UNSURE, THERE), Sides(GONE, UNSURE)])
def test_of_a_side_that_cannot_be_told_nothing_is_believed_of_the_other_one(other: Sides) -> None:
    assert looks(other, other, other) == [None, None, None]


@pytest.mark.parametrize("state", [CatalogState.ACTIVE, CatalogState.PAUSED])
def test_what_a_partition_of_now_is_translated_by_is_never_over(state: CatalogState) -> None:
    now = entry(identity=NEXT, state=state)
    assert looks(LOST, LOST, LOST, others=(now,)) == [None, None, None]
    assert looks(BOTH, others=(now,)) == [BOTH]


def test_what_is_copied_now_is_never_over() -> None:
    lost = LostTopics()
    assert [lost.believed([entry()], {ONE: LOST}) for _ in range(3)] == [{}, {}, {}]


@pytest.mark.parametrize(
    "now", [entry(identity=OTHER), entry(1), entry(identity=NEXT, state=CatalogState.REMOVED)]
)
def test_partitions_of_other_topics_or_removed_ones_do_not_keep_it(now: CatalogPartition) -> None:
    assert looks(LOST, LOST, others=(now,)) == [None, LOST]
