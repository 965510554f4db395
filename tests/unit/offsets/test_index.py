"""Translation both ways: exact, whatever lies between the records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.index import Found, OffsetIndex, PartitionMap, pieces_of
from mirrorfleet.offsets.pieces import Piece
from mirrorfleet.records.segments import Run
from tests.unit.offsets.making import PARTITIONS, History, check_all, histories, run_of


def map_of(*runs: Run) -> PartitionMap:
    found = PartitionMap()
    for run in runs:
        found.add(run)
    return found


def forward(known: PartitionMap, offset: int) -> tuple[int, str] | None:
    found = known.to_target(SourceOffset(offset))
    return None if found is None else (found.offset, str(found.found))


def back(known: PartitionMap, offset: int) -> tuple[int, str] | None:
    found = known.to_source(TargetOffset(offset))
    return None if found is None else (found.offset, str(found.found))


def test_a_run_is_cut_at_its_holes() -> None:
    assert list(pieces_of(run_of(5, 15, 7, (5, 1), (8, 2), (14, 1)))) == [
        Piece(6, 7, 2),
        Piece(10, 9, 4),
    ]


def test_an_offset_becomes_the_first_copied_record_that_is_not_below_it() -> None:
    known = map_of(run_of(10, 13, 100), run_of(14, 20, 104, (15, 2)))
    assert forward(known, 10) == (100, "exact")
    assert forward(known, 12) == (102, "exact")
    assert forward(known, 13) == (104, "exact")  # a marker on the source
    assert forward(known, 14) == (104, "exact")
    assert forward(known, 15) == (105, "exact")  # removed by compaction
    assert forward(known, 19) == (107, "exact")


def test_the_way_back_skips_our_own_markers() -> None:
    known = map_of(run_of(10, 13, 100), run_of(14, 20, 104, (15, 2)))
    assert back(known, 102) == (12, "exact")
    assert back(known, 103) == (14, "exact")
    assert back(known, 105) == (17, "exact")


def test_what_is_not_copied_yet_is_the_end_of_the_copy() -> None:
    known = map_of(run_of(10, 13, 100))
    assert forward(known, 13) == (103, "end")
    assert forward(known, 5_000) == (103, "end")
    assert back(known, 103) == (13, "end")


def test_what_was_before_the_copy_is_its_first_record() -> None:
    known = map_of(run_of(10, 13, 100))
    assert forward(known, 9) == (100, "before-copy")
    assert back(known, 0) == (10, "before-copy")


def test_nothing_copied_gives_no_answer() -> None:
    assert forward(PartitionMap(), 0) is None
    assert back(PartitionMap(), 0) is None
    assert PartitionMap().last is None


def test_the_last_record_is_known_on_both_sides() -> None:
    assert map_of(run_of(10, 13, 100, (12, 1))).last == (11, 101)


def test_runs_that_touch_on_both_sides_are_one_piece() -> None:
    known = map_of(run_of(0, 5, 0), run_of(5, 9, 5), run_of(9, 12, 10))
    assert (len(known), known.nbytes) == (2, 48)
    assert forward(known, 8) == (8, "exact")


def test_a_run_that_is_known_changes_nothing() -> None:
    runs = (run_of(0, 5, 0), run_of(5, 9, 5), run_of(9, 12, 10, (10, 1)))
    known = map_of(*runs, *runs)
    assert len(known) == 3


@pytest.mark.parametrize(
    "other",
    [run_of(4, 6, 10), run_of(3, 6, 2), run_of(0, 2, 6), run_of(7, 9, 5)],
    ids=["source again", "other target", "order turned", "over the next"],
)
def test_runs_that_disagree_are_refused(other: Run) -> None:
    index = OffsetIndex()
    index.add(PARTITIONS[0], [run_of(0, 5, 0), run_of(8, 9, 8)])
    with pytest.raises(CorruptBatchError, match="segments and archive disagree"):
        index.add(PARTITIONS[0], [other])


def test_found_words_are_what_people_and_programs_read() -> None:
    assert [str(one) for one in Found] == ["exact", "end", "before-copy"]


@settings(max_examples=80)
@given(histories())
def test_every_offset_translates_as_by_brute_force(made: History) -> None:
    index = OffsetIndex()
    for segment in made.segments:
        index.add_segment(segment)
    check_all(index, made)


@settings(max_examples=50)
@given(histories(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(made: History, dice: object) -> None:
    index = OffsetIndex()
    twice = made.segments * 2
    dice.shuffle(twice)  # type: ignore[attr-defined] # Hypothesis's Random has no public type
    for segment in twice:
        index.add_segment(segment)
    check_all(index, made)
