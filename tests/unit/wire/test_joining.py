"""Plain batches in one: the same records, offsets and times, and nothing that was not fetched."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.joining import join
from mirrorfleet.wire.reshape import copied_records
from tests.unit.wire.batches import (
    TIME,
    Seen,
    copy_of,
    read,
    seen_in,
    sent,
    some,
)

if TYPE_CHECKING:
    from mirrorfleet.wire.copybatch import CopyBatch

YEAR_MS = 31_536_000_000
TIMES = st.integers(0, 100) | st.integers(-5_000, 5_000) | st.integers(-50 * YEAR_MS, YEAR_MS)
CONTENT = st.none() | st.binary(max_size=90)
KINDS = st.lists(
    st.tuples(TIMES, CONTENT, CONTENT, st.sampled_from((1, 1, 1, 3))), min_size=1, max_size=6
)
"""Records that a batch repeats in turn: more than 63 need numbers of two bytes, and drawing each
would take a second an example."""


@st.composite
def runs(draw: st.DrawFn) -> list[list[Seen]]:
    """Batches of a partition in a row, with holes in them and between them."""
    found, at = [], draw(st.integers(0, 10))
    for _ in range(draw(st.integers(2, 4))):
        records = []
        for time, key, value, gap in islice(cycle(draw(KINDS)), draw(st.integers(1, 80))):
            records.append(Seen(at, TIME + time, key, value))
            at += gap
        found.append(records)
    return found


def copies(batches: list[list[Seen]]) -> list[CopyBatch]:
    return [copy_of(each) for each in batches]


def joined(batches: list[CopyBatch]) -> list[Seen]:
    """What a consumer reads of them, at source offsets."""
    batch = join(batches)
    assert [each.offset for each in seen_in(sent(batch))] == list(range(batch.count))
    return read(batch)


@given(runs())
def test_every_record_is_there_in_order_with_its_time(batches: list[list[Seen]]) -> None:
    assert joined(copies(batches)) == [record for batch in batches for record in batch]


def test_times_that_overflow_are_those_of_java() -> None:
    first, second = copies([some(2), some(2, first=2)])
    long_ago = -(1 << 63) + 1
    batch = join([replace(first, base_timestamp=long_ago), second])
    times = [time for _, time, _ in copied_records(batch)]
    assert times == [long_ago, long_ago + 10, TIME, TIME + 10]


def test_holes_that_touch_are_one_hole() -> None:
    first, second = copies([some(2), some(2, first=7)])
    longer = replace(first, next_offset=SourceOffset(4), holes=((SourceOffset(2), 2),))
    assert join([longer, second]).holes == ((2, 5),)


def test_what_is_not_as_it_was_fetched_is_refused() -> None:
    first, second = copies([some(3), some(3, first=3)])
    for at in range(len(second.payload)):
        flipped = bytearray(second.payload)
        flipped[at] ^= 4
        with pytest.raises(CorruptBatchError, match="offset 3 is not what was fetched") as error:
            join([first, replace(second, payload=bytes(flipped))])
        assert error.value.offset == second.first


@pytest.mark.parametrize("count", [2, 4])
def test_records_that_do_not_fill_their_batch_are_refused(count: int) -> None:
    with pytest.raises(CorruptBatchError, match="the batch at offset 0"):
        join([replace(batch, count=count) for batch in copies([some(3), some(3, first=3)])])


@pytest.mark.parametrize("at", [0, 3], ids=["length", "number"])
def test_a_record_of_another_length_or_number_is_refused_though_its_checksum_is_right(
    at: int,
) -> None:
    first, second = copies([some(3), some(3, first=3)])
    right = second.payload[at]
    for byte in set(range(256)) - {right}:
        payload = bytearray(second.payload)
        payload[at] = byte
        lying = replace(second, payload=bytes(payload), payload_crc=crc32c(payload))
        with pytest.raises(CorruptBatchError):
            join([first, lying])


def test_batches_that_overlap_are_refused() -> None:
    first, second = copies([some(3), some(3, first=3)])
    with pytest.raises(CorruptBatchError, match="offset 0 comes after 5"):
        join([second, first])
