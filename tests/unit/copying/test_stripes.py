from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.copying.partition import CopyPartition, Pace, SourceEnds
from mirrorfleet.copying.stripes import LEAST_BYTES, SPARE, Piece, Stripes
from tests.unit.copying.making import entry, fetched, give, identity, slot
from tests.unit.copying.pieces import (
    Source,
    answer,
    deliver,
    deliver_in_turn,
    end_of,
    made,
    offsets,
    plenty,
    queued,
)


def test_without_an_estimate_there_is_one_piece_and_its_answer_says_how_long_the_next_are() -> None:
    source = Source([10] * 40)
    copying, partition = made(source)
    stripes = Stripes(4_000)

    first = stripes.next([partition], plenty)
    assert first is not None
    assert (first.first, first.end, first.max_bytes) == (0, None, 4_000)
    assert stripes.next([partition], plenty) is None

    deliver(copying, stripes, first, answer(source, first, 4_000, MemoryBudget(1 << 30)))

    assert partition.walked_to == 30
    second, third = stripes.next([partition], plenty), stripes.next([partition], plenty)
    assert second is not None
    assert third is not None
    assert second.first == 30
    assert second.end == third.first
    # 1,171 bytes for ten records: 34 offsets are 4,000 bytes
    assert third.first == 64


def test_a_piece_is_asked_for_when_all_of_it_has_room_or_as_large_as_that_where_it_must() -> None:
    source = Source([100] * 400)
    copying, partition = made(source)
    stripes, budget = Stripes(1 << 20), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 1 << 20, budget))

    whole = stripes.next([partition], plenty)
    assert stripes.next([partition], lambda _: 1 << 20) is None

    assert whole is not None
    assert whole.end is not None
    deliver(copying, stripes, whole, answer(source, whole, 1 << 21, budget))
    assert partition.walked_to >= whole.end
    part = stripes.next([partition], lambda _: 300_000)
    assert part is not None
    assert LEAST_BYTES < part.max_bytes <= 300_000
    stripes.drop(partition)
    least = stripes.next([partition], lambda _: 0)
    assert least is not None
    assert least.max_bytes == LEAST_BYTES


def test_a_partition_without_room_leaves_the_pieces_to_others() -> None:
    source, budget = Source([10] * 400), MemoryBudget(1 << 30)
    copying = slot(entry(0), entry(1), budget=budget)
    full, other = copying.partitions.values()
    stripes = Stripes(4_000)
    for partition in (full, other):
        partition.source = SourceEnds(source.end, source.end, 0)
        first = stripes.next([partition], plenty)
        assert first is not None
        deliver(copying, stripes, first, answer(source, first, 4_000, budget))

    def room_for(partition: CopyPartition) -> int:
        return 0 if partition is full else 1 << 30

    taken = [stripes.next([full, other], room_for) for _ in range(4)]

    assert [piece and piece.partition for piece in taken] == [full, other, other, other]


def test_there_is_more_until_all_that_is_known_to_be_there_is_in_a_piece() -> None:
    source = Source([10] * 9)
    copying, partition = made(source)
    stripes, found = Stripes(4_000), list[bool]()
    first = stripes.next([partition], plenty)
    assert first is not None
    found.append(stripes.has_more([partition]))  # where it ends is not known
    deliver(copying, stripes, first, answer(source, first, 4_000, MemoryBudget(1 << 30)))
    while stripes.has_more([partition]):
        found.append(stripes.next([partition], plenty) is not None)

    assert found == [False, True, True]
    assert stripes.next([partition], plenty) is None


def test_a_later_piece_waits_for_the_one_before_it() -> None:
    source = Source([10] * 12)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, budget))
    second, third = stripes.next([partition], plenty), stripes.next([partition], plenty)
    assert second is not None
    assert third is not None

    deliver(copying, stripes, third, answer(source, third, 8_000, budget))
    assert partition.walked_to == 30

    deliver(copying, stripes, second, answer(source, second, 8_000, budget))
    assert partition.walked_to == 120
    assert queued(partition) == [(start, start + 10) for start in range(0, 120, 10)]


def test_after_a_rewind_nothing_is_delivered_behind_the_gap() -> None:
    source = Source([10] * 12)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, budget))
    second = stripes.next([partition], plenty)
    assert second is not None
    copying.rewind()

    deliver(copying, stripes, second, answer(source, second, 8_000, budget))

    assert partition.walked_to == 0
    assert queued(partition) == []
    assert second.dropped
    assert budget.used == 0


def test_dropped_pieces_give_their_memory_back() -> None:
    source = Source([10] * 12)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, MemoryBudget(1 << 30)))
    stripes.next([partition], plenty)
    third = stripes.next([partition], plenty)
    assert third is not None
    deliver(copying, stripes, third, answer(source, third, 8_000, budget))
    assert budget.used > 0

    stripes.keep(lambda _: False)

    assert budget.used == 0
    assert stripes.on_the_way(partition) == 0


def test_pieces_get_smaller_while_answers_are_slow_and_larger_again() -> None:
    source = Source([10] * 4_000)
    copying, partition = made(source)
    stripes, memory = Stripes(256 << 10), MemoryBudget(1 << 30)
    sizes = []
    for took_s in (0.1, 2.1, 2.1, 2.1, 0.1):
        piece = stripes.next([partition], plenty)
        assert piece is not None
        sizes.append(piece.max_bytes >> 10)
        deliver(copying, stripes, piece, answer(source, piece, piece.max_bytes, memory))
        stripes.timed(took_s)

    first, second, third, fourth, fifth = sizes
    assert first == 256
    assert second > 250
    assert 100 < third < 150
    assert (fourth, fifth) == (70, 70)
    piece = stripes.next([partition], plenty)
    assert piece is not None
    assert piece.max_bytes >> 10 > 100


def test_pieces_of_before_a_rewind_are_dropped_and_those_of_others_stay() -> None:
    source = Source([10] * 40)
    _, rewound = made(source)
    _, other = made(source)
    stripes = Stripes(1_000)
    old, kept = stripes.next([rewound], plenty), stripes.next([other], plenty)
    assert old is not None
    assert kept is not None

    rewound.rewind()
    assert (old.stale, kept.stale) == (True, False)
    stripes.keep(lambda _: True)
    assert (stripes.on_the_way(rewound), stripes.on_the_way(other)) == (0, 1)


def test_a_corrupt_batch_stops_the_partition_at_its_offset_and_drops_what_follows() -> None:
    source = Source([10] * 12)
    copying, partition = made(source)
    stripes, budget = Stripes(2_400), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    source.batches[1][1][200] ^= 1

    deliver(copying, stripes, first, answer(source, first, 2_400, budget))

    assert partition.walked_to == 10
    assert partition.fault is not None
    assert (partition.fault.reason, partition.fault.offset) == (FaultReason.SOURCE_CORRUPT, 10)
    assert stripes.on_the_way(partition) == 0


def test_the_partition_with_fewest_pieces_on_the_way_is_next() -> None:
    source = Source([10] * 40)
    _, one = made(source)
    _, two = made(source)
    stripes = Stripes(1_000)

    partitions = [stripes.next([one, two], plenty), stripes.next([one, two], plenty)]

    assert [each.partition for each in partitions if each is not None] == [one, two]


def test_partitions_that_share_one_connection_take_turns() -> None:
    source = Source([10] * 40)
    copies = [made(source) for _ in range(3)]
    partitions = [partition for _, partition in copies]
    stripes, budget = Stripes(1_000), MemoryBudget(1 << 30)
    served = []
    for _ in range(6):
        piece = stripes.next(partitions, plenty)
        assert piece is not None
        number = partitions.index(piece.partition)
        served.append(number)
        while not piece.whole:
            deliver(copies[number][0], stripes, piece, answer(source, piece, 4_000, budget))

    assert served == [0, 1, 2, 0, 1, 2]


@settings(max_examples=150)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    gaps=st.lists(st.integers(0, 40) | st.sampled_from([400, 6_000]), min_size=1, max_size=40),
    piece_bytes=st.integers(300, 9_000),
    connections=st.integers(1, 8),
    data=st.data(),
)
def test_whatever_the_order_of_answers_each_batch_is_delivered_once_and_in_order(
    sizes: list[int], gaps: list[int], piece_bytes: int, connections: int, data: st.DataObject
) -> None:
    source = Source(sizes, gaps)
    copying, partition = made(source)
    stripes, budget = Stripes(piece_bytes), MemoryBudget(1 << 30)
    busy: list[Piece] = []
    rewinds = data.draw(st.integers(0, 2))
    while partition.walked_to < end_of(source.batches[-1][1]):
        while len(busy) < connections and (piece := stripes.next([partition], plenty)) is not None:
            busy.append(piece)
        if not busy:
            deliver_in_turn(copying, stripes, partition)
            continue
        number = data.draw(st.integers(0, len(busy) - 1))
        piece = busy.pop(number)
        if piece.dropped:
            continue
        cut = data.draw(st.integers(200, 2 * piece_bytes))
        stripes.answered(piece, answer(source, piece, cut, budget))
        deliver_in_turn(copying, stripes, partition, data.draw(st.sampled_from([1_000, 1, 0])))
        if not (piece.whole or piece.dropped):
            busy.append(piece)
        if rewinds and data.draw(st.booleans()):
            rewinds -= 1
            copying.rewind()

    expected = [
        base + number
        for (base, _), size in zip(source.batches, sizes, strict=True)
        for number in range(size)
    ]
    assert offsets(partition) == expected
    copying.rewind()
    stripes.keep(lambda _: False)
    assert budget.used == 0


@pytest.mark.parametrize("gap", [1, 3, 10, 30, 100, 10_000])
def test_however_much_denser_a_log_grows_a_piece_holds_a_few_times_its_share(gap: int) -> None:
    """Of a sparse log each batch is followed by a gap; at some point there is none any more."""
    source = Source([10] * 700, [10 * gap] * 200 + [0] * 500)
    copying, partition = made(source)
    stripes, budget, most = Stripes(LEAST_BYTES), MemoryBudget(1 << 30), 0
    while not partition.at_end:
        first = stripes.next([partition], plenty)
        more = [stripes.next([partition], plenty) for _ in range(5)]
        behind = [each for each in more if each is not None]
        assert first is not None
        for piece in (*behind[::-1], first):
            held = 0
            while not (piece.whole or piece.stale):
                part = answer(source, piece, piece.ask_bytes, budget)
                held += part.end
                deliver(copying, stripes, piece, part)
            most = max(most, held)

    assert most <= 4 * SPARE * LEAST_BYTES
    assert sum(each.batch.count for each in partition.queue) == 7_000


def test_pieces_fit_what_memory_has_for_each_connection_and_grow_again() -> None:
    _, partition = made(Source([1] * 100, [0] * 100))
    stripes, sizes = Stripes(1 << 20), []
    for fitting in (300_000, 1, 8 << 20):
        stripes.fit(fitting)
        stripes.timed(0.1)
        piece = stripes.next([partition], plenty)
        assert piece is not None
        sizes.append(piece.max_bytes)
        stripes.drop(partition)
    assert sizes == [300_000, LEAST_BYTES, 2 * LEAST_BYTES]
    for _ in range(5):
        stripes.timed(0.1)
    grown = stripes.next([partition], plenty)
    assert grown is not None
    assert grown.max_bytes == 1 << 20


def test_what_an_earlier_leader_was_asked_for_is_dropped_when_there_is_another() -> None:
    source = Source([10] * 12)
    copying, partition = made(source)
    stripes, budget = Stripes(4_000), MemoryBudget(1 << 30)
    first = stripes.next([partition], plenty)
    assert first is not None
    deliver(copying, stripes, first, answer(source, first, 4_000, budget))
    second, third = stripes.next([partition], plenty), stripes.next([partition], plenty)
    assert second is not None
    assert third is not None
    second.leader_epoch = third.leader_epoch = 5

    stripes.of_epoch(partition, 5)
    before = [second.dropped, third.dropped]
    stripes.of_epoch(partition, 6)

    assert before == [False, False]
    assert [second.dropped, third.dropped] == [True, True]
    anew = stripes.next([partition], plenty)
    assert anew is not None
    assert anew.first == partition.walked_to == 30


def test_a_queue_that_is_full_for_one_connection_has_room_for_many() -> None:
    made = slot()
    partition = made.partitions[identity()]
    half = b"v" * (600 << 10)
    give(made, partition, fetched((0, [half]), (1, [half])), end=3)

    assert made.wanted(Pace.LIVE, 1.0) == []
    assert made.wanted(Pace.LIVE, 1.0, 2 << 20) == [partition]
