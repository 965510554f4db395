"""Segments: exact bytes, every shape, sizes that are a budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError, MirrorfleetError, UnknownVersionError
from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.records.segments import Run, Segment, decode_segment, encode_segment
from tests.unit.records.making import OTHER_ID, identity

TIME = 1_790_000_000_000


def run_of(
    a: int,
    b: int,
    c: int,
    holes: tuple[tuple[int, int], ...] = (),
    payloads: tuple[tuple[int, int], ...] = (),
) -> Run:
    kept = tuple((SourceOffset(start), size) for start, size in holes)
    return Run(SourceOffset(a), SourceOffset(b), TargetOffset(c), kept, payloads)


ONE = Segment(
    SlotNumber(5), TIME, ((identity(2), (run_of(1000, 1010, 1030, (), ((10, 0xDEADBEEF),)),)),)
)
ONE_HEX = (
    "01" + "05" + "80d8c1a28c34"
    + "01" + "00" + "000102030405060708090a0b0c0d0e0f"
    + "01" + "11" * 16 + "22" * 16 + "00"
    + "01" + "04" + "d00f" + "3c" + "0a" + "02" + "deadbeef"
)  # fmt: skip


def test_one_run_has_these_bytes() -> None:
    assert encode_segment(ONE).hex() == ONE_HEX


def test_these_bytes_are_that_segment() -> None:
    assert decode_segment(bytes.fromhex(ONE_HEX)) == ONE


def test_holes_and_several_runs_and_payloads_are_kept() -> None:
    first = run_of(5, 15, 7, ((8, 2), (12, 1)), ((3, 1), (4, 0xFFFFFFFF)))
    second = run_of(15, 16, 14, (), ((1, 7),))
    rewound = run_of(3, 4, 99)
    segment = Segment(
        SlotNumber(0), 1, ((identity(0), (first, second, rewound)), (identity(7), ()))
    )
    assert decode_segment(encode_segment(segment)) == segment


def test_records_and_target_end_leave_out_holes() -> None:
    run = run_of(5, 15, 7, ((8, 2), (12, 1)))
    assert (run.records, run.target_end) == (7, 14)


def test_partitions_of_one_topic_share_its_head() -> None:
    def pieces(count: int) -> int:
        runs = tuple(
            (identity(number), (run_of(10**6, 10**6 + 10, 10**6 + 50, (), ((10, 1),)),))
            for number in range(count)
        )
        return len(encode_segment(Segment(SlotNumber(5), TIME, runs)))

    assert pieces(1) == 72
    assert pieces(2) - pieces(1) == 11
    assert pieces(101) - pieces(1) == 1100


def test_decoding_gives_topics_together_in_order() -> None:
    runs = tuple(
        (identity(partition, source=source), (run_of(0, 1, 0),))
        for partition, source in ((1, OTHER_ID), (4, identity().source_topic_id), (0, OTHER_ID))
    )
    found = decode_segment(encode_segment(Segment(SlotNumber(1), 1, runs)))
    assert [(one.source_topic_id == OTHER_ID, one.partition) for one, _ in found.runs] == [
        (False, 4),
        (True, 0),
        (True, 1),
    ]


def test_payloads_must_hold_the_records_of_their_run() -> None:
    wrong = Segment(SlotNumber(1), 1, ((identity(), (run_of(0, 5, 0, (), ((4, 1),)),)),))
    with pytest.raises(ValueError, match="do not hold its 5 records"):
        encode_segment(wrong)


def test_a_newer_version_stops_us() -> None:
    with pytest.raises(UnknownVersionError):
        decode_segment(b"\x02" + bytes.fromhex(ONE_HEX)[1:])


def test_payloads_that_cannot_fit_are_refused_before_memory_is_taken() -> None:
    cut = bytes.fromhex(ONE_HEX)[:-5]
    with pytest.raises(CorruptBatchError, match="do not fit"):
        decode_segment(cut + b"\xfe\xff\xff\xff\x0f")


@given(st.integers(min_value=0, max_value=len(ONE_HEX) // 2 - 1), st.integers(0, 255))
def test_any_changed_byte_gives_a_segment_or_an_error_of_ours(at: int, byte: int) -> None:
    data = bytearray.fromhex(ONE_HEX)
    data[at] = byte
    try:
        decode_segment(bytes(data))
    except MirrorfleetError:
        return


@st.composite
def runs(draw: st.DrawFn) -> Run:
    start = draw(st.integers(0, 2**40))
    end = start + draw(st.integers(0, 50))
    holes = []
    at = start
    for _ in range(draw(st.integers(0, 3))):
        at += draw(st.integers(0, 5))
        size = draw(st.integers(1, 3))
        if at + size > end:
            break
        holes.append((at, size))
        at += size
    left = end - start - sum(size for _, size in holes)
    payloads = []
    while left:
        count = draw(st.integers(1, left))
        payloads.append((count, draw(st.integers(0, 2**32 - 1))))
        left -= count
    return run_of(start, end, draw(st.integers(0, 2**40)), tuple(holes), tuple(payloads))


@settings(max_examples=60)
@given(st.lists(st.lists(runs(), max_size=4), max_size=5), st.booleans())
def test_any_segment_comes_back(partitions: list[list[Run]], two_topics: bool) -> None:  # noqa: FBT001 - Hypothesis draws it
    sources = [identity().source_topic_id, OTHER_ID if two_topics else identity().source_topic_id]
    entries = tuple(
        (identity(3 * number, source=sources[number > 2]), tuple(one))
        for number, one in enumerate(partitions)
    )
    segment = Segment(SlotNumber(3), TIME, entries)
    assert decode_segment(encode_segment(segment)) == segment
