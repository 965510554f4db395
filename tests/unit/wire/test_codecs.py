"""Codecs: Kafka's framings, both ways, and bombs refused before they are inflated."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from hashlib import sha256
from random import Random
from time import thread_time

import cramjam
import pytest
import zstandard
from aiokafka.codec import lz4_decode, snappy_decode, zstd_decode
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.codecs import Codec, Effort, compress, decompress

LARGE = b"".join(b"%d," % number for number in range(60_000))
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


@given(st.sampled_from(Codec), st.sampled_from(Effort), st.binary(max_size=2000))
def test_what_was_compressed_comes_back(codec: Codec, effort: Effort, body: bytes) -> None:
    assert decompress(codec, compress(codec, body, effort)) == body


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_last_attempt_to_fit_takes_some_times_as_long_as_the_first_and_not_a_hundred_times(
    codec: Codec,
) -> None:
    """Nothing else of the worker runs meanwhile."""

    def cost(effort: Effort) -> float:
        began = thread_time()
        compress(codec, LARGE, effort)
        return thread_time() - began

    first, last = (min(cost(effort) for _ in range(3)) for effort in Effort)
    assert last < 50 * first


@pytest.mark.parametrize("codec", list(Codec))
def test_several_blocks_come_back(codec: Codec) -> None:
    assert decompress(codec, compress(codec, LARGE)) == LARGE


def test_snappy_is_written_in_the_framing_of_javas_client() -> None:
    payload = compress(Codec.SNAPPY, LARGE)
    assert payload[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert snappy_decode(payload) == LARGE


def test_a_raw_snappy_block_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(LARGE))) == LARGE


def test_snappy_streams_written_one_after_the_other_are_one() -> None:
    twice = compress(Codec.SNAPPY, b"first ") + compress(Codec.SNAPPY, b"second")
    assert decompress(Codec.SNAPPY, twice) == b"first second"


def test_lz4_is_a_frame_of_independent_blocks_with_javas_own_header() -> None:
    """A linked frame is what lz4 libraries make, and Java says it is unsupported."""
    payload = compress(Codec.LZ4, LARGE)
    assert payload[:7].hex() == "04224d18604082"
    assert lz4_decode(payload) == LARGE


def test_lz4_bytes_that_do_not_compress_are_stored() -> None:
    noise = b"".join(sha256(b"%d" % i).digest() for i in range(2188))[:70_000]
    payload = compress(Codec.LZ4, noise)
    assert len(payload) == 7 + 4 + 65_536 + 4 + 4464 + 4
    assert lz4_decode(payload) == noise


@pytest.mark.parametrize("flags", [0x60, 0x64])
@pytest.mark.parametrize("mark", [b"\0\0\0\0", b"\0\0\0\1"])
def test_an_lz4_frame_of_one_block_ends_with_its_mark(flags: int, mark: bytes) -> None:
    block = bytes(cramjam.lz4.compress_block(b"abc" * 50, store_size=False))
    frame = bytes.fromhex("04224d18") + bytes((flags, 0x40, 0x82)) + struct.pack("<I", len(block))
    payload = frame + block + mark + (b"sums" if flags & 0x04 else b"")
    if any(mark):
        with pytest.raises(CorruptBatchError):
            decompress(Codec.LZ4, payload)
    else:
        assert decompress(Codec.LZ4, payload) == b"abc" * 50
        with pytest.raises(CorruptBatchError):
            decompress(Codec.LZ4, payload, 149)


def test_an_lz4_block_holds_no_more_than_its_frame_says() -> None:
    """Java makes room by the descriptor: what is larger nobody can read."""
    block = bytes(cramjam.lz4.compress_block(bytes(70_000), store_size=False))
    for descriptor, is_read in ((0x40, False), (0x50, True)):
        head = struct.pack("<IBBB", 0x184D2204, 0x60, descriptor, 0x82)
        frame = head + struct.pack("<I", len(block)) + block + bytes(4)
        if is_read:
            assert decompress(Codec.LZ4, frame) == bytes(70_000)
        else:
            with pytest.raises(CorruptBatchError):
                decompress(Codec.LZ4, frame)


def test_lz4_checksums_and_sizes_in_a_frame_are_stepped_over() -> None:
    block = bytes(cramjam.lz4.compress_block(b"abc" * 50, store_size=False))
    head = struct.pack("<IBBqB", 0x184D2204, 0x7C, 0x70, 150, 0xEE)
    frame = head + struct.pack("<I", len(block)) + block + b"csum" + bytes(4) + b"csum"
    assert decompress(Codec.LZ4, frame) == b"abc" * 50


def test_zstd_is_read_by_another_decoder() -> None:
    assert zstd_decode(compress(Codec.ZSTD, LARGE)) == LARGE


def test_zstd_frames_in_a_row_are_one_stream_and_skippable_ones_are_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"notes"
    frames = compress(Codec.ZSTD, b"first ") + skippable + compress(Codec.ZSTD, LARGE)
    assert decompress(Codec.ZSTD, frames) == b"first " + LARGE


@pytest.mark.parametrize("tells_size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_a_small_zstd_frame_is_read_whole_and_so_are_those_behind_it(
    *, tells_size: bool, checksum: bool
) -> None:
    writer = zstandard.ZstdCompressor(write_content_size=tells_size, write_checksum=checksum)
    noise = Random(1).randbytes(60)
    for content in (b"abc" * 20, noise, b"x" * 5_000):
        frame = writer.compress(content)
        assert decompress(Codec.ZSTD, frame) == content
        assert decompress(Codec.ZSTD, frame, len(content)) == content
        assert decompress(Codec.ZSTD, frame + frame) == content + content
        for damaged in (frame[:-1], frame + b"?", frame + frame[:-1]):
            with pytest.raises(CorruptBatchError):
                decompress(Codec.ZSTD, damaged)
        with pytest.raises(CorruptBatchError):
            decompress(Codec.ZSTD, frame, len(content) - 1)


@pytest.mark.parametrize(
    ("frame", "content"),
    [
        # raw block; window of 1 MB, content size in 8 bytes
        ("28b52ffd c0 50 0500000000000000 290000 68656c6c6f", b"hello"),
        # raw block, then the frame's checksum (XXH64)
        ("28b52ffd 04 50 290000 68656c6c6f a36d9f88", b"hello"),
        # one byte 1000 times
        ("28b52ffd 00 50 431f00 78", b"x" * 1000),
    ],
    ids=["long size", "checksum", "run"],
)
def test_room_for_zstd_is_counted_from_block_headers_wherever_they_begin(
    frame: str, content: bytes
) -> None:
    assert decompress(Codec.ZSTD, bytes.fromhex(frame) * 3) == content * 3


def test_gzip_members_in_a_row_are_one_stream() -> None:
    twice = compress(Codec.GZIP, b"first ") + compress(Codec.GZIP, b"second")
    assert decompress(Codec.GZIP, twice) == b"first second"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_view_of_a_frame_is_read_without_copying_it_first(codec: Codec) -> None:
    frame = bytearray(b"header" + compress(codec, LARGE) + b"tail")
    assert decompress(codec, memoryview(frame)[6:-4]) == LARGE


@pytest.mark.parametrize("codec", list(Codec))
def test_exactly_the_limit_is_allowed_and_a_byte_more_is_not(codec: Codec) -> None:
    payload = compress(codec, LARGE)
    assert decompress(codec, payload, len(LARGE)) == LARGE
    with pytest.raises(CorruptBatchError):
        decompress(codec, payload, len(LARGE) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_refused_in_the_memory_of_its_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_lies_about_its_size_is_refused_before_room_is_made() -> None:
    with pytest.raises(CorruptBatchError, match="more than"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x1f" + b"\x00" * 8)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_cut_payload_is_corrupt_wherever_it_is_cut(codec: Codec) -> None:
    payload = compress(codec, b"some bytes, some bytes, some more bytes")
    for size in range(1, len(payload)):
        if codec is Codec.SNAPPY and size == 16:
            continue  # a header without blocks is an empty stream
        with pytest.raises(CorruptBatchError):
            decompress(codec, payload[:size])


@given(st.sampled_from(COMPRESSED), st.binary(max_size=200))
def test_garbage_is_corrupt_or_something_but_no_other_error(codec: Codec, junk: bytes) -> None:
    with suppress(CorruptBatchError):
        decompress(codec, junk, 1 << 16)


@given(st.sampled_from(COMPRESSED), st.data())
def test_a_damaged_payload_raises_no_other_error(codec: Codec, data: st.DataObject) -> None:
    payload = bytearray(compress(codec, LARGE[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptBatchError):
        decompress(codec, payload, 1 << 20)
