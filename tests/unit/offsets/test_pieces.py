"""Packed pieces are the list that they were made of, whatever is asked or changed."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.offsets.pieces import CHUNK, SOURCE, TARGET, Piece, Pieces
from tests.unit.offsets.making import run_of

HUGE = 2**40
"""Offsets, holes and stretches that need eight bytes."""


@st.composite
def lists(draw: st.DrawFn) -> list[Piece]:
    """Pieces in order, with holes of every size before them."""
    size = st.sampled_from((0, 1, 2, 300, 70_000, HUGE))
    source, target, made = draw(size), draw(size), []
    for _ in range(draw(st.integers(1, 24))):
        piece = Piece(source, target, 1 + draw(size))
        source, target = (start + piece.records + draw(size) for start in piece[:2])
        made.append(piece)
    return made


def pieces_of(listed: list[Piece], chunk: int) -> Pieces:
    made = Pieces(chunk)
    for piece in listed:
        made.append(piece)
    return made


def check(made: Pieces, listed: list[Piece]) -> None:
    """Everything that can be asked, at every border."""
    assert len(made) == len(listed)
    assert [made[at] for at in range(len(listed))] == listed
    assert made[-1] == listed[-1]
    for at in range(len(listed) + 1):
        assert list(made.since(at)) == listed[at:]
    for side in (SOURCE, TARGET):
        starts = [piece[side] for piece in listed]
        for offset in {start + step for start in starts for step in (-1, 0, 1)}:
            assert made.begun(side, offset) == bisect_right(starts, offset)


@settings(max_examples=60)
@given(lists(), st.integers(1, 5))
def test_they_are_the_list_that_was_appended(listed: list[Piece], chunk: int) -> None:
    made = pieces_of(listed, chunk)
    check(made, listed)
    with pytest.raises(IndexError):
        made[len(listed)]

    made.grow_last(7)
    assert made[-1].records == listed[-1].records + 7


@settings(max_examples=60)
@given(lists(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_they_may_come_in_any_order(listed: list[Piece], chunk: int, dice: Random) -> None:
    made, known = Pieces(chunk), list[Piece]()
    for piece in dice.sample(listed, len(listed)):
        at = bisect_right(known, piece)
        made.insert(at, piece)
        known.insert(at, piece)
        check(made, known)


@settings(max_examples=60)
@given(lists(), st.integers(1, 5), st.data())
def test_the_first_ones_can_be_forgotten_again_and_again(
    listed: list[Piece], chunk: int, data: st.DataObject
) -> None:
    made = pieces_of(listed, chunk)
    for _ in range(3):
        gone = data.draw(st.integers(0, len(listed) - 1))
        made.drop(gone)
        listed = listed[gone:]
        check(made, listed)


def test_a_piece_of_a_busy_partition_takes_less_than_four_bytes_once_it_is_old() -> None:
    made, number, dice = Pieces(), 40 * CHUNK, Random(7)
    source = target = HUGE
    for _ in range(number):
        count = dice.randrange(1, 1_000)
        made.append(Piece(source, target, count))
        source, target = source + count, target + count + 1
    tail = 2 * CHUNK * 24

    assert (made.nbytes - tail) / number < 4


def test_a_map_of_many_pieces_answers_as_one_that_packs_nothing() -> None:
    packed, plain = PartitionMap(chunk=4), PartitionMap()
    runs = [run_of(10 * n, 10 * n + 8, 9 * n, (10 * n + 3, 1)) for n in range(60)]
    for known in (packed, plain):
        for run in (*runs[:20], *runs[40:], *runs[15:45], *runs):
            known.add(run)

    def answers(known: PartitionMap) -> list[object]:
        asked = range(620)
        return [
            *(known.to_target(SourceOffset(at)) for at in asked),
            *(known.to_source(TargetOffset(at)) for at in asked),
            *(known.records_from(TargetOffset(at)) for at in asked),
            *(known.end_below(SourceOffset(at), TargetOffset(at)) for at in asked),
            *(list(known.between(TargetOffset(a), b)) for a, b in pairwise(range(0, 620, 7))),
            (known.first, known.last, len(known)),
        ]

    assert answers(packed) == answers(plain)
    for floor in (50, 123, 400):
        for known in (packed, plain):
            known.forget_below(SourceOffset(floor), TargetOffset(floor))
        assert answers(packed) == answers(plain)
