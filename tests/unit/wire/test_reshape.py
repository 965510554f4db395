"""Copy batches made from a copy batch: split, and with records left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import randbytes

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire import builder
from mirrorfleet.wire.codecs import Codec, Effort, compress
from mirrorfleet.wire.copybatch import BatchFault, FaultKind, Terms
from mirrorfleet.wire.engine import (
    before,
    divide,
    find_null_keys,
    source_offset,
    split,
    without,
)
from tests.unit.wire.batches import (
    CODECS,
    GZIP,
    TIME,
    ZSTD,
    Seen,
    batch_of,
    copy_of,
    fetched,
    patched,
    read,
    some,
    source_offsets,
)


@pytest.mark.parametrize("codec", CODECS)
def test_a_split_keeps_every_record_codec_and_offset(codec: int) -> None:
    records = some(100, first=50)
    pieces = split(copy_of(records, codec=codec, leader_epoch=4), 350)
    assert isinstance(pieces, list)
    assert read(*pieces) == records
    assert all(piece.size <= 350 for piece in pieces)
    assert {(piece.attributes, piece.leader_epoch) for piece in pieces} == {(codec, 4)}


def test_pieces_follow_each_other_without_a_gap_and_holes_stay() -> None:
    kept = [record for record in some(60) if record.offset % 7 < 5]
    pieces = divide(copy_of(kept, last_offset_delta=70), 500).batches
    assert len(pieces) > 2
    assert read(*pieces) == kept
    assert pieces[0].first == 0
    assert pieces[-1].next_offset == 71
    for piece, following in pairwise(pieces):
        assert piece.next_offset == following.first
    for piece in pieces:
        gaps = sum(missing for _, missing in piece.holes)
        assert piece.count == piece.next_offset - piece.first - gaps


def test_a_batch_that_fits_is_not_touched() -> None:
    batch = copy_of(some(3))
    assert split(batch, batch.size) == [batch]


def test_a_record_too_large_alone_names_offset_size_and_limit() -> None:
    records = [*some(4), Seen(4, TIME, b"big", b"x" * 900), *some(2, first=5)]
    batch = copy_of(records)
    fault = split(batch, 400)
    assert isinstance(fault, BatchFault)
    assert (fault.offset, fault.kind) == (4, FaultKind.TOO_LARGE)
    assert "907 bytes" in fault.detail
    assert "is 400" in fault.detail
    division = divide(batch, 400)
    assert division.fault == fault
    assert read(*division.batches) == some(4)
    assert division.batches[-1].next_offset == 4


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_record_that_fits_only_when_packed_hard_is_packed_hard(codec: int) -> None:
    value = b"".join(b"%d %d;" % (number, number * number % 97) for number in range(3000))
    batch = copy_of([Seen(0, TIME, b"k", value)], codec=codec)
    quick = without(batch, ())
    assert quick is not None
    limit = quick.size - 20
    (small,) = divide(quick, limit).batches
    assert small.size <= limit
    assert read(small) == [Seen(0, TIME, b"k", value)]


@pytest.mark.parametrize(("uncompressed", "part_of_it"), [(8_000_000, 0.25), (9_000_000, 0.99)])
def test_a_record_that_hardly_fits_however_hard_it_is_packed_is_not_packed(
    monkeypatch: pytest.MonkeyPatch, uncompressed: int, part_of_it: float
) -> None:
    """All slots of the worker would wait meanwhile, and once a minute again."""
    record = Seen(7, TIME, None, randbytes(uncompressed // 2).hex().encode())
    from_source = batch_of([record], codec=ZSTD)
    (batch,) = fetched(from_source, wanted=7, terms=Terms(max_batch_bytes=1 << 24)).batches
    efforts = list[Effort]()

    def compressed(codec: Codec, body: bytes | bytearray, effort: Effort) -> bytes:
        efforts.append(effort)
        return compress(codec, body, effort)

    monkeypatch.setattr(builder, "compress", compressed)
    limit = int(batch.size * part_of_it)
    fault = split(batch, limit)

    assert efforts == []
    assert isinstance(fault, BatchFault)
    assert (fault.offset, fault.kind) == (7, FaultKind.TOO_LARGE)
    assert f"makes a batch of {batch.size} bytes" in fault.detail


def test_records_without_key_are_found_at_their_source_offsets() -> None:
    records = [
        Seen(5, TIME, b"", b"an empty key is a key"),
        Seen(8, TIME, None, b"x"),
        Seen(9, TIME, b"k", None),
        Seen(11, TIME, None, None),
    ]
    assert find_null_keys(copy_of(records, last_offset_delta=6)) == [8, 11]


def test_records_left_out_become_holes() -> None:
    batch = without(copy_of(some(6), codec=GZIP), {0, 3, 5})
    assert batch is not None
    assert read(batch) == [some(6)[i] for i in (1, 2, 4)]
    assert (batch.first, batch.next_offset, batch.holes) == (1, 6, ((3, 1), (5, 1)))


def test_nothing_is_left_of_a_batch_without_its_records() -> None:
    assert without(copy_of(some(2)), {0, 1}) is None


def test_the_records_before_an_offset_end_there() -> None:
    batch = copy_of([some(9)[i] for i in (0, 1, 4, 8)], last_offset_delta=8)
    head = before(batch, SourceOffset(4))
    assert head is not None
    assert (source_offsets(head), head.next_offset) == ([0, 1], 4)
    assert before(batch, SourceOffset(0)) is None


def test_a_brokers_index_of_a_record_is_told_as_a_source_offset() -> None:
    batch = copy_of([some(9)[i] for i in (0, 1, 4, 8)], last_offset_delta=8)
    assert [source_offset(batch, index) for index in range(4)] == [0, 1, 4, 8]


def test_a_payload_that_is_not_numbered_from_zero_is_corrupt() -> None:
    """The fast path never looked; who looks must not guess."""
    lying = patched(batch_of([some(3)[0], some(3)[2]]), last_offset_delta=1)
    (batch,) = fetched(lying).batches
    with pytest.raises(CorruptBatchError, match="numbered 2, not 1"):
        find_null_keys(batch)


def test_a_payload_with_fewer_records_than_counted_is_corrupt() -> None:
    batch = replace(copy_of(some(3)), count=4, next_offset=SourceOffset(4))
    with pytest.raises(CorruptBatchError, match="ends before its 4 records"):
        find_null_keys(batch)
