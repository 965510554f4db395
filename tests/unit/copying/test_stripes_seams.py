"""Where pieces meet: large batches lie across seams, answers reach further than their pieces."""

from __future__ import annotations

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.stripes import Piece, Stripes
from mirrorfleet.core.ids import SourceOffset
from tests.unit.copying.pieces import (
    Source,
    answer,
    deliver,
    deliver_in_turn,
    made,
    offsets,
    plenty,
)


def begun(source: Source) -> tuple[Slot, Stripes, list[Piece]]:
    """Three pieces on the way, behind a first one that has told what an offset takes."""
    copying, partition = made(source)
    stripes = Stripes(4_000)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, MemoryBudget(1 << 30)))
    taken = [stripes.next([partition], plenty) for _ in range(3)]
    pieces = [each for each in taken if each is not None]
    assert [(each.first, each.end) for each in pieces] == [(30, 64), (64, 98), (98, 132)]
    return copying, stripes, pieces


def bring(source: Source, copying: Slot, stripes: Stripes, *pieces: Piece) -> None:
    """Answers of three batches each, until all of these pieces came."""
    for piece in pieces:
        while not piece.whole:
            part = answer(source, piece, 4_000, MemoryBudget(1 << 30))
            deliver(copying, stripes, piece, part)


def test_large_batches_cross_the_line_less_than_twice_however_small_pieces_are() -> None:
    """A broker sends the batch with the first offset whole, however little is asked for."""
    source = Source([1_000] * 40)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    brought = 0
    for count in (1, 16):
        for piece in [stripes.next([partition], plenty) for _ in range(count)]:
            assert piece is not None
            while not (piece.whole or piece.stale):
                part = answer(source, piece, piece.ask_bytes, budget)
                brought += len(part.buffer)
                deliver(copying, stripes, piece, part)

    copied = sum(len(batch) for base, batch in source.batches if base < partition.walked_to)
    assert brought < 2 * copied
    assert offsets(partition) == list(range(partition.walked_to))
    assert partition.walked_to > 30_000


def test_a_batch_across_a_seam_comes_with_the_piece_behind_it_and_is_not_asked_for_again() -> None:
    source = Source([10] * 40)
    copying, stripes, (second, third, fourth) = begun(source)
    partition, budget = second.partition, MemoryBudget(1 << 30)
    across = len(source.batches[6][1])  # it has the offsets 60 to 69, the seam is at 64
    whole = len(source.fetch(30, 1 << 20)) - len(source.fetch(60, 1 << 20))

    stripes.answered(third, answer(source, third, 12_000, budget))
    stripes.answered(second, answer(source, second, whole + across // 2, budget))

    assert (second.at, second.whole) == (60, True)
    deliver_in_turn(copying, stripes, partition)
    assert (partition.walked_to, fourth.dropped) == (third.at, False)
    assert offsets(partition) == list(range(third.at))


def test_where_nobody_else_brings_what_is_missing_it_is_asked_for_again() -> None:
    source = Source([10] * 40)
    header = 27  # to the delta of its last offset: nothing else says how far a batch reaches
    for seam, more, is_whole in [(64, header, True), (64, header - 1, False), (70, header, False)]:
        _, stripes, (second, _, _) = begun(source)
        second.end = SourceOffset(seam)
        whole = len(source.fetch(30, 1 << 20)) - len(source.fetch(60, 1 << 20))
        part = answer(source, second, whole + more, MemoryBudget(1 << 30))
        stripes.answered(second, part)
        assert (second.at, second.whole) == (60, is_whole)


def test_behind_a_hole_the_batch_across_a_seam_is_asked_for_again() -> None:
    """What the piece behind it brings does not say that there is nothing in the hole."""
    source = Source([10] * 40, [0] * 5 + [3] + [0] * 34)
    _, stripes, (second, _, _) = begun(source)
    whole = len(source.fetch(30, 1 << 20)) - len(source.fetch(63, 1 << 20))
    stripes.answered(second, answer(source, second, whole + 100, MemoryBudget(1 << 30)))
    assert (second.at, second.end, second.whole) == (60, 64, False)


def test_what_any_answer_has_reached_is_not_asked_for_again() -> None:
    source = Source([10] * 40)
    copying, stripes, (second, third, fourth) = begun(source)
    partition = second.partition

    deliver(copying, stripes, third, answer(source, third, 12_000, MemoryBudget(1 << 30)))
    fifth = stripes.next([partition], plenty)
    assert fifth is not None
    assert (partition.walked_to, third.at, fifth.first) == (30, 160, 160)

    deliver(copying, stripes, second, answer(source, second, 20_000, MemoryBudget(1 << 30)))
    sixth = stripes.next([partition], plenty)
    assert sixth is not None
    assert (partition.walked_to, fifth.end, sixth.first) == (200, 194, 200)

    bring(source, copying, stripes, sixth, fifth, fourth)
    assert offsets(partition) == list(range(sixth.at))


def test_a_piece_is_cut_off_with_what_is_behind_it_and_what_is_before_it_goes_on() -> None:
    source, budget = Source([10] * 40), MemoryBudget(1 << 30)
    copying, stripes, (second, third, fourth) = begun(source)
    partition = second.partition
    deliver(copying, stripes, fourth, answer(source, fourth, 8_000, budget))
    held = budget.used

    stripes.cut(third)

    assert [each.dropped for each in (second, third, fourth)] == [False, True, True]
    assert (held > 0, budget.used) == (True, 0)
    anew = stripes.next([partition], plenty)
    assert anew is not None
    assert anew.first == second.end
    bring(source, copying, stripes, anew, second)
    assert offsets(partition) == list(range(anew.at))


def grown_denser() -> tuple[Source, Slot, Stripes, list[Piece]]:
    """Three pieces on the way, measured by a sparse log; two of them lie in a dense one."""
    source = Source([10] * 303, [990] * 3 + [0] * 300)
    copying, partition = made(source)
    stripes = Stripes(4_000)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, MemoryBudget(1 << 30)))
    stripes._bytes_an_offset[partition] = 4_000 / 1_000.5
    taken = [stripes.next([partition], plenty) for _ in range(3)]
    pieces = [each for each in taken if each is not None]
    assert [(each.first, each.end) for each in pieces] == [
        (2_010, 3_010),
        (3_010, 4_010),
        (4_010, 5_010),
    ]
    return source, copying, stripes, pieces


def test_where_the_log_grows_denser_a_piece_ends_at_its_answer_and_those_behind_are_cut_anew() -> (
    None
):
    source, copying, stripes, (second, third, fourth) = grown_denser()
    partition, budget = second.partition, MemoryBudget(1 << 30)
    deliver(copying, stripes, fourth, answer(source, fourth, 4_000, budget))
    fourths = budget.used

    deliver(copying, stripes, third, answer(source, third, 4_000, budget))

    assert (third.whole, third.end, fourth.dropped) == (True, 3_040, True)
    assert (second.dropped, second.end) == (False, 3_010)
    assert (fourths > 0, budget.used) == (True, 4_000)  # the answer to the third one
    anew = stripes.next([partition], plenty)
    assert anew is not None
    assert anew.end is not None
    assert (anew.first, anew.end - anew.first < 100) == (3_040, True)
    bring(source, copying, stripes, anew, second)
    assert offsets(partition)[-1] == anew.at - 1
    assert len(offsets(partition)) == 30 + anew.at - 3_000


def test_a_piece_that_is_only_somewhat_larger_than_it_was_thought_to_be_is_read_to_its_end() -> (
    None
):
    source = Source([10] * 23, [8] * 3 + [0] * 20)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, budget))
    second, third = stripes.next([partition], plenty), stripes.next([partition], plenty)
    assert second is not None
    assert third is not None
    assert second.end is not None

    deliver(copying, stripes, second, answer(source, second, 4_000, budget))
    assert (second.whole, third.dropped, second.end - second.at > 10) == (False, False, True)
    bring(source, copying, stripes, second)
    assert partition.walked_to >= second.end == third.first
