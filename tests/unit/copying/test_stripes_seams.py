"""Where pieces meet: large batches lie across seams, answers reach further than their pieces."""

from __future__ import annotations

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.stripes import Piece, Stripes
from tests.unit.copying.pieces import Source, answer, deliver, made, offsets, plenty


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
