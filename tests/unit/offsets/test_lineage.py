"""Several incarnations of the same topics: which of the maps answers, on both ways.

source   0 .. 10 .. 20   was copied to   0 .. 20; then 10 .. 20 was another history
source       10 .. 30    was copied to       25 .. 45; then 25 .. 30 was another one
source           25 .. 30    was copied to       50 .. 55
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.lineage import Losses
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.segments import Run
from tests.unit.copying.making import entry, identity

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
SECOND = replace(identity(), incarnation=1)
THIRD = replace(identity(), incarnation=2)
HOLE = ((SourceOffset(10), 1),)
LOSS = CatalogLoss(cause="source-truncated", first=10, end=20)


def run(first: int, end: int, target: int) -> Run:
    return Run(SourceOffset(first), SourceOffset(end), TargetOffset(target))


def copies(cause: str) -> Copies:
    index = OffsetIndex()
    index.add(identity(), [run(0, 20, 0)])
    index.add(SECOND, [run(10, 30, 25)])
    loss = CatalogLoss(cause=cause, first=10, end=20)
    return Copies([entry(identity=SECOND, loss=loss)], index)


def thrice(
    *second: Run,
    first: int = 25,
    cause: str = "source-truncated",
    third: int = 50,
    losses: Losses | None = None,
) -> Copies:
    """The last loss is at `first`; what came then is on the target from `third` on."""
    index = OffsetIndex()
    index.add(identity(), [run(0, 20, 0)])
    if second:
        index.add(SECOND, second)
    index.add(THIRD, [run(first, first + 5, third)])
    loss = CatalogLoss(cause=cause, first=first, end=first + 5)
    known = {SECOND: LOSS} if losses is None else losses
    return Copies([entry(identity=THIRD, loss=loss)], index, known)


def on_target(copies: Copies, asked: int) -> int | None:
    found = copies.to_target(HERE, asked)
    return None if found is None else found.offset


def on_source(copies: Copies, asked: int) -> int | None:
    found = copies.to_source(THERE, asked)
    return None if found is None else found.offset


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (9, 9), (10, 25), (15, 30), (29, 44), (30, 45)],
)
def test_below_where_histories_part_the_former_map_answers(asked: int, answer: int) -> None:
    found = copies("source-truncated").to_target(HERE, asked)

    assert found is not None
    assert found.offset == answer


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (9, 9), (10, 10), (19, 10), (24, 10), (25, 10), (44, 29), (45, 30)],
)
def test_what_only_the_former_history_had_leads_back_to_where_they_part(
    asked: int, answer: int
) -> None:
    found = copies("source-truncated").to_source(THERE, asked)

    assert found is not None
    assert found.offset == answer


def test_the_map_of_another_topic_of_the_name_answers_nothing() -> None:
    found = copies("source-recreated").to_target(HERE, 3)

    assert found is not None
    assert (found.offset, found.found) == (25, "before-copy")


def test_a_hole_up_to_where_histories_part_leads_into_the_new_one() -> None:
    index = OffsetIndex()
    index.add(identity(), [run(0, 8, 0), run(12, 20, 8)])
    index.add(SECOND, [run(10, 30, 25)])
    loss = CatalogLoss(cause="target-truncated", first=10, end=20)

    found = Copies([entry(identity=SECOND, loss=loss)], index).to_target(HERE, 9)

    assert found is not None
    assert found.offset == 25


@pytest.mark.parametrize("cause", ["source-truncated", "rewound", "target-truncated"])
@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (5, 5), (9, 9), (10, 25), (24, 39), (25, 50), (29, 54), (40, 55)],
)
def test_a_group_far_behind_is_found_in_the_map_before_the_last_loss_but_one(
    cause: str, asked: int, answer: int
) -> None:
    assert on_target(thrice(run(10, 30, 25), cause=cause), asked) == answer


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (9, 9), (10, 10), (24, 10), (25, 10), (39, 24), (40, 25), (49, 25), (54, 29)],
)
def test_the_way_back_goes_through_all_maps_too(asked: int, answer: int) -> None:
    assert on_source(thrice(run(10, 30, 25)), asked) == answer


def test_a_loss_far_back_ends_what_every_map_before_is_good_for() -> None:
    copies = thrice(run(10, 30, 25), first=6)

    assert [on_target(copies, asked) for asked in (5, 6, 9, 12)] == [5, 50, 53, 55]


@pytest.mark.parametrize(("asked", "answer"), [(5, 5), (9, 9), (10, 25), (14, 29), (20, 30)])
def test_an_incarnation_that_copied_nothing_is_looked_through(asked: int, answer: int) -> None:
    assert on_target(thrice(first=10, third=25), asked) == answer


@pytest.mark.parametrize(
    ("asked", "answer"), [(5, 5), (9, 9), (10, 10), (24, 10), (25, 50), (29, 54)]
)
def test_where_the_map_of_an_incarnation_is_gone_the_end_of_those_before_answers(
    asked: int, answer: int
) -> None:
    assert on_target(thrice(), asked) == answer


def test_an_incarnation_of_which_no_map_is_left_may_have_begun_anywhere_on_a_cut_target() -> None:
    cut = {SECOND: replace(LOSS, cause="target-truncated")}

    assert [on_target(thrice(losses=cut), asked) for asked in (5, 24, 25)] == [0, 0, 50]


@pytest.mark.parametrize(("asked", "answer"), [(5, 0), (9, 0), (10, 25), (24, 39), (25, 50)])
def test_before_a_loss_that_nobody_knows_the_answer_is_the_begin(asked: int, answer: int) -> None:
    assert on_target(thrice(run(10, 30, 25), losses={}), asked) == answer


def test_before_a_recreated_source_no_map_is_asked() -> None:
    recreated = {SECOND: CatalogLoss(cause="source-recreated")}
    copies = thrice(run(10, 30, 25), losses=recreated)

    assert [on_target(copies, asked) for asked in (5, 12, 25)] == [25, 27, 50]


def test_where_the_target_was_cut_below_what_is_known_the_new_copy_answers() -> None:
    copies = thrice(run(10, 30, 25), first=10, cause="target-truncated", third=5)

    assert [on_target(copies, asked) for asked in (4, 5, 9, 10)] == [4, 5, 5, 5]


def test_nothing_is_answered_before_the_new_incarnation_has_copied_something() -> None:
    index = OffsetIndex()
    index.add(identity(), [run(0, 20, 0)])
    copies = Copies([entry(identity=SECOND, loss=LOSS)], index)

    assert on_target(copies, 5) is None
    index.add(SECOND, [Run(SourceOffset(10), SourceOffset(11), TargetOffset(20), HOLE)])
    assert on_target(copies, 5) is None
