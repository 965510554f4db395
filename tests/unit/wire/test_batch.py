"""Walking a fetched range: complete batches, their headers, their CRCs, and nonsense refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.batch import BatchHeader, cut_off, verified_payload, verify, walk
from mirrorfleet.wire.codecs import Codec
from tests.unit.wire.batches import GOLDEN, GZIP, batch_of, golden, header_of, patched, some


def test_every_field_of_a_header_is_read() -> None:
    header = header_of(golden("v2-gzip")[0])
    assert header == BatchHeader(
        start=0,
        end=header.size,
        base_offset=1000,
        leader_epoch=7,
        magic=2,
        crc=header.crc,
        attributes=0x11,
        last_offset_delta=11,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_010_000,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=40,
        count=12,
    )
    assert (header.last_offset, header.next_offset) == (1011, 1012)
    assert header.codec is Codec.GZIP
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (1, 0, 0)


def test_batches_follow_each_other_between_two_bounds() -> None:
    first, second = batch_of(some(3)), batch_of(some(2, first=3))
    buffer = b"before" + first + second + b"after"
    found = list(walk(buffer, 6, 6 + len(first) + len(second)))
    assert [(h.start, h.end, h.base_offset) for h in found] == [
        (6, 6 + len(first), 0),
        (6 + len(first), 6 + len(first) + len(second), 3),
    ]


def test_a_partial_batch_at_the_end_is_left_out_wherever_it_is_cut() -> None:
    first, second = batch_of(some(3)), batch_of(some(2, first=3))
    for cut in range(len(second)):
        assert [h.base_offset for h in walk(first + second[:cut])] == [0]


def test_of_a_partial_batch_its_range_of_offsets_is_known_as_soon_as_that_is_there() -> None:
    batch = b"before" + batch_of(some(4, first=7))
    found = [cut_off(batch, 6, end) for end in range(6, len(batch))]
    known = 27  # the last byte of lastOffsetDelta is before it
    assert found == [None] * known + [(7, 11)] * (len(batch) - 6 - known)


def test_an_old_message_does_not_say_how_far_it_reaches() -> None:
    buffer, _ = golden("v1-none")
    assert cut_off(buffer, 0, 40) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_partial_old_message_at_the_end_is_left_out(magic: int) -> None:
    buffer, lines = golden(f"v{magic}-none")
    assert len(list(walk(buffer))) == len(lines) == 12
    assert len(list(walk(buffer[:-1]))) == 11


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_an_impossible_length_is_refused(length: int) -> None:
    batch = batch_of(some(3))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatchError, match="no batch at byte 0"):
        list(walk(batch))


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_an_unknown_magic_is_refused(magic: int) -> None:
    batch = batch_of(some(3))
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(CorruptBatchError, match=f"magic {magic}"):
        list(walk(batch))


@pytest.mark.parametrize("name", ["v0-none", "v1-gzip", "v2-none"])
def test_a_right_crc_is_accepted_and_any_flipped_bit_refused(name: str) -> None:
    good = golden(name)[0]
    header = next(walk(good))
    verify(good, header)
    covered_from = 21 if header.magic == 2 else 17
    for position in range(covered_from, header.end, 5):
        bad = bytearray(good)
        bad[position] ^= 0x10
        with pytest.raises(CorruptBatchError, match="CRC"):
            verify(bad, next(walk(good)))


def test_the_payload_is_a_view_of_the_frame_and_not_a_copy() -> None:
    frame = batch_of(some(3))
    payload, _ = verified_payload(memoryview(frame), header_of(frame))
    frame[61] ^= 0xFF
    assert payload[0] == frame[61]


@pytest.mark.parametrize("field", ["count", "last_offset_delta"])
def test_a_negative_count_is_refused_although_its_crc_is_right(field: str) -> None:
    batch = patched(batch_of(some(3)), **{field: -2})
    with pytest.raises(CorruptBatchError, match="-2"):
        verified_payload(memoryview(batch), header_of(batch))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec: int) -> None:
    batch = patched(batch_of(some(3), codec=GZIP), attributes=codec)
    with pytest.raises(CorruptBatchError, match=f"codec id {codec} does not exist"):
        verified_payload(memoryview(batch), header_of(batch))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.bin")), ids=lambda path: path.stem)
def test_every_batch_that_kafka_wrote_verifies(path: Path) -> None:
    buffer = path.read_bytes()
    for header in walk(buffer):
        verify(buffer, header)
