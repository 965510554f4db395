"""Where a group goes on at home: behind what it has read on the target, and never back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.failback import Place, places_at_home, unmapped, unread
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import Found, OffsetIndex
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import COPY, ORDERS, copies, entry, flow
from tests.unit.offsets.test_lineage import copies as truncated
from tests.unit.records.making import identity

OTHERS = COPY._replace(topic="east.carts")


def places(own: int, stands: int | None) -> list[Place]:
    """Of a group of which one partition is copied; record 10 is not there, 19 is the last."""
    there = {COPY: GroupOffset(own, "kept"), OTHERS: GroupOffset(3)}
    home = {} if stands is None else {ORDERS: GroupOffset(stands)}
    return places_at_home("g1", there, home, copies(), flow())


@pytest.mark.parametrize(
    ("own", "goes_on"),
    [(0, 0), (7, 7), (10, 11), (20, 20)],
    ids=["at the begin", "at a record", "at what is none", "at the end"],
)
def test_it_goes_on_at_the_first_record_that_it_has_not_read(own: int, goes_on: int) -> None:
    (place,) = places(own, None)

    assert (place.is_due, place.wanted) == (True, GroupOffset(goes_on, "kept"))


@pytest.mark.parametrize(("stands", "has_read"), [(6, True), (7, False), (12, False)])
def test_of_what_its_place_at_home_leads_to_it_has_read_nothing(
    stands: int,
    has_read: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    found = places(7, stands)

    assert [(each.stands, each.is_due) for each in found] == [(stands, True)] * has_read


def test_it_goes_on_where_the_log_begins_by_now() -> None:
    (place,) = places(7, 2)
    later = replace(place, start=9)

    assert (later.goes_on, later.is_due) == (9, True)


@pytest.mark.parametrize(
    ("own", "stands", "said"),
    [
        (70, None, f"{COPY}: 70 is before the first record that was copied"),
        (85, 40, f"{ORDERS}: it stood at 40, and copying began behind it"),
        (85, 52, ""),
        (85, None, ""),
    ],
)
def test_what_lies_before_the_copy_is_told_and_not_passed_over(
    own: int, stands: int | None, said: str
) -> None:
    """Source offset 50 is the first that was copied, behind 80 records of others."""
    index = OffsetIndex()
    index.add(identity(0), [run_of(50, 70, 80)])
    made = Copies([entry()], index)
    home = {} if stands is None else {ORDERS: GroupOffset(stands)}
    (place,) = places_at_home("g1", {COPY: GroupOffset(own)}, home, made, flow())

    told = unread(place, made)
    assert told.startswith(said)
    assert bool(told) is bool(said)


def test_a_place_below_the_begin_of_the_log_at_home_is_in_no_doubt() -> None:
    """Retention took what it stood at, there and from the map."""
    index = OffsetIndex()
    index.add(identity(0), [run_of(50, 70, 80)])
    made = Copies([entry()], index)
    (place,) = places_at_home("g1", {COPY: GroupOffset(85)}, {ORDERS: GroupOffset(5)}, made, flow())

    assert unread(replace(place, start=49), made) != ""
    assert unread(replace(place, start=50), made) == ""


def test_what_only_the_history_of_before_had_leads_to_its_end() -> None:
    """The source lost its tail, and went on: a group that had read all of that has no doubt."""
    made = truncated("source-truncated")
    (place,) = places_at_home("g1", {COPY: GroupOffset(19)}, {}, made, flow())

    assert (place.answer.found, unread(place, made)) == (Found.BEFORE, "")


def test_a_copy_that_began_anew_and_has_no_record_is_told() -> None:
    new = Copies([entry()], OffsetIndex())

    said = unmapped("g1", {COPY: GroupOffset(7)}, new, flow())
    assert said == f"{COPY}: it stands at 7, and the map has no record of this copy yet"
    assert unmapped("g1", {COPY: GroupOffset(0)}, new, flow()) == ""
    assert unmapped("other", {COPY: GroupOffset(7)}, new, flow()) == ""
    assert unmapped("g1", {COPY: GroupOffset(7)}, copies(), flow()) == ""


def test_a_group_that_no_rule_takes_has_no_place() -> None:
    assert places_at_home("other", {COPY: GroupOffset(7)}, {}, copies(), flow()) == []
