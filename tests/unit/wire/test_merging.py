"""Small batches of one partition put into one, plain and compressed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire import codecs
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.copybatch import CopyBatch, Terms
from mirrorfleet.wire.merging import (
    MERGE_UP_TO,
    PACK_BELOW,
    PACK_INFLATED,
    PACK_MOST,
    PACK_RECORDS,
    Merged,
    goes_alone,
    merged,
)
from tests.unit.wire.batches import (
    CODECS,
    GZIP,
    LZ4,
    TIME,
    ZSTD,
    Seen,
    copy_of,
    read,
    some,
    source_offsets,
)

COMPRESSED = CODECS[1:]


def taken(batches: list[CopyBatch], terms: Terms | None = None, **bounds: int) -> int:
    found = merged(batches, terms or Terms(), **bounds)
    return found.taken if found else 0


def one_of(batches: list[CopyBatch], terms: Terms | None = None) -> CopyBatch:
    found = merged(batches, terms or Terms())
    assert found is not None
    return found.batch


@pytest.mark.parametrize("codec", CODECS)
def test_tiny_batches_merge_into_one_with_the_same_records(codec: int) -> None:
    batches = [copy_of(some(2, first=2 * i), codec=codec, leader_epoch=i) for i in range(10)]
    found = merged(batches, Terms())
    assert found is not None
    batch = found.batch
    assert found.taken == 10
    assert read(batch) == [record for each in batches for record in read(each)]
    assert (batch.first, batch.next_offset, batch.count, batch.holes) == (0, 20, 20, ())
    assert (batch.attributes, batch.leader_epoch) == (codec, 9)


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_missing_in_and_between_merged_batches_become_holes(codec: int) -> None:
    one = copy_of([some(5)[i] for i in (0, 2)], codec=codec, last_offset_delta=3)
    two = copy_of(some(2, first=10), codec=codec)
    batch = one_of([one, two])
    assert batch.holes == ((1, 1), (3, 7))
    assert source_offsets(batch) == [0, 2, 10, 11]


@pytest.mark.parametrize("codec", CODECS)
def test_times_of_merged_records_stay_even_when_they_go_back(codec: int) -> None:
    late, early = Seen(0, TIME + 5000, b"a", b"1"), Seen(1, TIME, b"b", b"2")
    batch = one_of([copy_of([late], codec=codec), copy_of([early], codec=codec)])
    assert read(batch) == [late, early]
    assert (batch.base_timestamp, batch.max_timestamp) == (TIME + 5000, TIME + 5000)


@pytest.mark.parametrize("codec", CODECS)
def test_a_time_of_append_that_only_headers_have_is_kept(codec: int) -> None:
    batches = [copy_of(some(1, first=i), codec=codec) for i in range(3)]
    batches[1] = replace(batches[1], max_timestamp=TIME + 60_000)
    assert one_of(batches).max_timestamp == TIME + 60_000


@pytest.mark.parametrize("codec", CODECS)
def test_one_batch_is_better_sent_as_it_is(codec: int) -> None:
    assert merged([copy_of(some(2), codec=codec)], Terms()) is None
    assert merged([], Terms()) is None


def test_small_batches_of_several_codecs_become_one_of_the_codec_of_most_bytes() -> None:
    batches = [
        copy_of(some(1, first=0, size=600)),
        copy_of(some(1, first=1), codec=GZIP),
        *(copy_of(some(2, first=2 + 2 * i), codec=ZSTD) for i in range(3)),
        copy_of(some(1, first=8, size=600)),
    ]
    found = merged(batches, Terms())
    assert found is not None
    assert (found.taken, found.batch.attributes) == (6, ZSTD)
    assert read(found.batch) == [record for each in batches for record in read(each)]


def test_large_plain_batches_before_compressed_ones_fill_a_request_as_before() -> None:
    large = [copy_of(some(64, first=64 * i, size=1000)) for i in range(3)]
    packed = [copy_of(some(1, first=192 + i), codec=ZSTD) for i in range(3)]
    assert taken([*large, *packed], share=448 * 1024) == 3
    assert taken([*large, *packed]) == 0
    assert taken([large[0], *packed], share=448 * 1024) == 0


def test_a_long_run_of_plain_batches_stays_plain() -> None:
    plain = [copy_of(some(1, first=i)) for i in range(20)]
    packed = [copy_of(some(1, first=20 + i), codec=ZSTD) for i in range(3)]
    found = merged([*plain, *packed], Terms())
    assert found is not None
    assert (found.taken, found.batch.attributes) == (20, 0)


def test_few_records_are_worth_merging_also_when_they_are_not_tiny() -> None:
    of_few = [copy_of(some(32, first=32 * i, size=500)) for i in range(3)]
    assert taken(of_few) == 3
    assert taken([copy_of(some(33, size=500)), *of_few]) == 0
    assert taken([copy_of(some(1, size=33_000)), *of_few]) == 0


def test_large_batches_are_worth_merging_as_long_as_a_request_would_be_small() -> None:
    large = [copy_of(some(64, first=64 * i, size=1000)) for i in range(8)]
    of_many = copy_of(some(129, first=512, size=1000))
    assert taken(large) == 0
    assert taken(large, share=448 * 1024) == 6
    assert taken(large, Terms(max_batch_bytes=200_000), share=448 * 1024) == 3
    assert taken(large, share=100_000) == 0
    assert taken(large, share=448 * 1024, limit=200_000) == 3
    assert taken([*large[:2], of_many], share=448 * 1024) == 2


def test_only_leading_small_batches_are_worth_merging() -> None:
    tiny = [copy_of(some(1, first=i)) for i in range(4)]
    big = copy_of(some(33, first=4, size=4000))
    assert taken(tiny) == 4
    assert taken([*tiny[:2], big, *tiny[2:]]) == 2
    assert taken([big, *tiny]) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_merging_stops_in_time_for_the_targets_limit(codec: int) -> None:
    values = [Random(i).randbytes(300) for i in range(20)]
    batches = [copy_of([Seen(i, TIME, b"k", v)], codec=codec) for i, v in enumerate(values)]
    found = merged(batches, Terms(max_batch_bytes=2000))
    assert found is not None
    assert 2 <= found.taken <= 6
    assert found.batch.size <= 2000


def test_records_that_grow_when_their_times_are_far_apart_still_fit_when_merged() -> None:
    batches = [
        copy_of([Seen(50 * day + i, TIME + day * 86_400_000, b"", b"") for i in range(50)])
        for day in range(8)
    ]
    terms = Terms(max_batch_bytes=sum(batch.size for batch in batches))
    batch = one_of(batches, terms)
    assert batch.count >= 100
    assert batch.size <= terms.max_batch_bytes


# --- compressed


def incompressible(codec: int, count: int, size: int) -> list[CopyBatch]:
    values = (Random(i).randbytes(size) for i in range(count))
    return [copy_of([Seen(i, TIME, b"k", v)], codec=codec) for i, v in enumerate(values)]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_no_codec_makes_smaller_still_fits_when_merged(codec: int) -> None:
    batches = incompressible(codec, 400, 1500)
    found = merged(batches, Terms())
    assert found is not None
    assert 100 < found.taken < 200
    assert MERGE_UP_TO // 2 < found.batch.size <= MERGE_UP_TO


@pytest.mark.parametrize("codec", COMPRESSED)
def test_no_limit_is_passed_by_what_a_codec_adds(codec: int) -> None:
    batches = incompressible(codec, 20, 1500)
    sizes = {
        limit: found.batch.size
        for limit in range(3_000, 20_000, 97)
        if (found := merged(batches, Terms(max_batch_bytes=limit)))
    }
    assert len(sizes) > 150
    assert all(size <= limit for limit, size in sizes.items())


@pytest.mark.parametrize("codec", COMPRESSED)
def test_records_alike_are_far_fewer_bytes_in_one_batch(codec: int) -> None:
    batches = [copy_of(some(1, first=i, size=200), codec=codec) for i in range(100)]
    assert 3 * one_of(batches).size < sum(batch.size for batch in batches)


def test_compressed_batches_that_are_dear_to_open_are_sent_as_they_are() -> None:
    tiny = [copy_of(some(1, first=100 + i), codec=LZ4) for i in range(3)]
    of_many = copy_of(some(PACK_RECORDS + 1), codec=LZ4)
    (large,) = incompressible(LZ4, 1, PACK_BELOW)
    wide = copy_of([Seen(0, TIME, b"k", bytes(PACK_INFLATED))], codec=LZ4)
    assert wide.size < PACK_BELOW
    for dear in (of_many, large, wide):
        assert taken([dear, *tiny]) == 0
        later = replace(dear, first=SourceOffset(200), next_offset=SourceOffset(300))
        assert taken([*tiny, later, *tiny]) == 3


@pytest.mark.parametrize("codec", COMPRESSED)
def test_without_memory_to_compress_batches_are_sent_as_they_are(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise cramjam.CompressionError("Allocation error : not enough memory")

    batches = [copy_of(some(2, first=2 * i), codec=codec) for i in range(10)]
    monkeypatch.setitem(codecs._COMPRESS, Codec(codec), refused)
    assert taken(batches) == 0


def test_so_many_compressed_batches_are_opened_at_once_and_no_more() -> None:
    batches = [copy_of(some(1, first=i), codec=LZ4) for i in range(PACK_MOST + 5)]
    assert taken(batches) == PACK_MOST


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_not_what_was_fetched_is_never_merged(codec: int, at: int) -> None:
    batches = [copy_of(some(1, first=i), codec=codec) for i in range(4)]
    lying = batches[at]
    flipped = bytearray(lying.payload)
    flipped[-1] ^= 1
    batches[at] = replace(lying, payload=bytes(flipped))
    assert_left_out(merged(batches, Terms()), at, codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_batch_whose_records_are_not_what_its_header_says_is_left_to_the_target(
    codec: int, at: int
) -> None:
    batches = [copy_of(some(2, first=2 * i), codec=codec) for i in range(4)]
    batches[at] = replace(batches[at], count=1)
    assert_left_out(merged(batches, Terms()), at, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_that_go_back_are_not_merged(codec: int) -> None:
    batches = [copy_of(some(2, first=first), codec=codec) for first in (0, 2, 3)]
    assert_left_out(merged(batches, Terms()), 2, codec)


def assert_left_out(found: Merged | None, at: int, codec: int) -> None:
    """Plain batches before a wrong one stay apart as well: they are put together in one go."""
    may = at if at > 1 and codec != Codec.NONE else 0
    assert (found.taken if found else 0) == may


COUNTS = st.sampled_from((1, 2, 32, 33, 64, 65, 128, 129))
BYTES = st.sampled_from((100, 2_000, 2_100, 7_900, 8_300, 32_000, 33_000, 60_000))
SHAPES = st.tuples(COUNTS, BYTES, st.sampled_from((0, LZ4)))
RANDOM = Random(3).randbytes(60_000)


def shaped(first: int, count: int, size: int, codec: int) -> CopyBatch:
    """A batch of so many records with so many bytes, which codecs cannot make fewer."""
    each = max(1, size // count)
    records = [Seen(first + n, TIME, None, RANDOM[n * each : (n + 1) * each]) for n in range(count)]
    return copy_of(records, codec=codec)


@settings(max_examples=200, deadline=None)
@given(st.lists(SHAPES, min_size=2, max_size=4), st.sampled_from((0, 50_000, 112_000)))
def test_what_goes_alone_at_first_sight_is_not_merged(
    shapes: list[tuple[int, int, int]], share: int
) -> None:
    batches = [shaped(1_000 * n, *shape) for n, shape in enumerate(shapes)]
    if goes_alone(batches[0], batches[1], share):
        assert merged(batches, Terms(), share) is None


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ((64, 60_000, 0), 112_000),
        ((129, 60_000, 0), 130_000),
        ((65, 60_000, LZ4), 0),
        ((65, 2_000, LZ4), 0),
    ],
)
def test_a_backlog_of_large_batches_is_seen_at_first_sight(
    shape: tuple[int, int, int], share: int
) -> None:
    assert goes_alone(shaped(0, *shape), shaped(1_000, *shape), share)


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ((64, 60_000, 0), 130_000),
        ((64, 7_000, LZ4), 0),
        ((1, 100, 0), 0),
        ((128, 8_300, 0), 112_000),
    ],
)
def test_what_may_be_merged_is_looked_at_more_closely(
    shape: tuple[int, int, int], share: int
) -> None:
    assert not goes_alone(shaped(0, *shape), shaped(1_000, *shape), share)
