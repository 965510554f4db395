"""The codecs of record batches, in the framings that Kafka's Java client reads and writes.

    gzip    RFC 1952; several members in a row are one stream
    snappy  xerial framing (magic 0x82 "SNAPPY" 0x00); librdkafka may send one raw block: both read
    lz4     frames of independent blocks: Java refuses linked ones, which is what lz4 libraries
            make by default, so the frame is made and read here. Its checksums are not read: the
            batch CRC covers them, and magic 0 had wrong ones (KAFKA-3160)
    zstd    RFC 8878 frames: see `zstd`

Output is bounded *before* it is made: a batch of a few KB can claim gigabytes. Errors:
CorruptBatchError and, on a machine without memory, MemoryError; never another, and never the end of
the process: what cramjam (Rust) cannot allocate aborts it, so cramjam is given room made here, and
zstd, whose contexts are large, is left to zstandard (C).
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal

import cramjam
import zstandard

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Inflater = Callable[[bytes | bytearray | memoryview, int], bytes | bytearray]

MAX_INFLATED: Final = 128 << 20
"""Most bytes that one batch may inflate to. Producers measure their limit (max.request.size, 1 MB
by default) before compression, and brokers are rarely allowed 100 MB; one worker of 256 MB must
survive a bomb."""


_LIBRARIES_SAY: Final = (
    cramjam.DecompressionError,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
)
_OF_MEMORY: Final = ("not enough memory", "Error -4 ")
"""What zstd and zlib (Z_MEM_ERROR) say when they had none: it is not about the bytes."""
WRONG: Final = (*_LIBRARIES_SAY, CorruptBatchError)
"""What is said of bytes that are not of the codec, by libraries and by us."""


class Codec(IntEnum):
    """A codec by its bits in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Effort(IntEnum):
    """How hard to compress: `FAST` keeps up with fetching, `SMALL` makes a last attempt to fit.

    That takes 15 ms (zstd) or 25 ms (gzip) for each MB, in the event loop. The highest levels would
    take 600 ms and 70 ms, for 10 % and 1 % less (measured with JSON).
    """

    FAST = 0
    SMALL = 1


def compress(codec: Codec, body: bytes | bytearray, effort: Effort = Effort.FAST) -> bytes:
    """The records section in the codec's framing.

    Raises: MemoryError: all else can be compressed.
    """
    try:
        return _COMPRESS[codec](body, effort)
    except (cramjam.CompressionError, zlib.error, zstandard.ZstdError) as error:
        raise MemoryError(f"{codec.name.lower()}: {error}") from error


def decompress(
    codec: Codec, payload: bytes | bytearray | memoryview, limit: int = MAX_INFLATED
) -> bytes | bytearray:
    """The records section, uncompressed.

    Raises: CorruptBatchError when the bytes are not of the codec or hold more than `limit` bytes;
    MemoryError.
    """
    try:
        body = _DECOMPRESS[codec](payload, limit)
    except _LIBRARIES_SAY as error:
        if any(words in str(error) for words in _OF_MEMORY):
            raise MemoryError(f"{codec.name.lower()}: {error}") from error
        raise CorruptBatchError(f"{codec.name.lower()} payload: {error}") from error
    if len(body) > limit:
        raise _too_much(limit)
    return body


def inflater(codec: Codec) -> Inflater:
    """What `decompress` does, for many small payloads: the caller looks out for `WRONG`, and at how
    much it was, which may be more than the limit.
    """
    return _DECOMPRESS[codec]


def _too_much(limit: int) -> CorruptBatchError:
    return CorruptBatchError(f"a batch holds more than {limit} bytes uncompressed")


# --- none, gzip ---------------------------------------------------------------------------


def _copy(body: bytes | bytearray, _: Effort) -> bytes:
    return bytes(body)


def _uncopy(payload: bytes | bytearray | memoryview, _: int) -> bytes:
    return bytes(payload)


_GZIP_WINDOW: Final = 31


def _gzip(body: bytes | bytearray, effort: Effort) -> bytes:
    packer = zlib.compressobj(1 if effort is Effort.FAST else 6, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(body) + packer.flush()


def _gunzip(payload: bytes | bytearray | memoryview, limit: int) -> bytes:
    out: list[bytes] = []
    room = limit + 1
    rest: bytes | bytearray | memoryview = payload
    while len(rest) and room > 0:
        member = zlib.decompressobj(_GZIP_WINDOW)
        piece = member.decompress(rest, room)
        out.append(piece)
        room -= len(piece)
        if not member.eof and room > 0:
            raise CorruptBatchError("gzip payload: the stream is cut")
        rest = member.unused_data
    return b"".join(out)


# --- snappy -------------------------------------------------------------------------------

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")
_SNAPPY_TABLE: Final = 64 * 1024
"""More than the library's table for a block of that size, with what malloc puts around it."""


def _snappy(body: bytes | bytearray, _: Effort) -> bytes:
    out: list[bytes | bytearray] = [_XERIAL_HEADER]
    with memoryview(body) as view:
        for start in range(0, len(view), _XERIAL_BLOCK):
            plain = view[start : start + _XERIAL_BLOCK]
            packed = bytearray(cramjam.snappy.compress_raw_max_len(plain))
            _check_room(_SNAPPY_TABLE)
            del packed[cramjam.snappy.compress_raw_into(plain, packed) :]
            out += (_LENGTH.pack(len(packed)), packed)
    return b"".join(out)


def _check_room(size: int) -> None:
    """Raise MemoryError where the library, which asks for so much next, would end the process."""
    bytearray(size)


def _unsnappy(payload: bytes | bytearray | memoryview, limit: int) -> bytearray:
    out = bytearray()
    for block in _snappy_blocks(memoryview(payload)):
        size = cramjam.snappy.decompress_raw_len(block)
        if len(out) + size > limit or size > _SNAPPY_RATIO * len(block):
            raise _too_much(limit)
        piece = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, piece)
        out += piece
    return out


_SNAPPY_RATIO: Final = 64
"""A snappy element of two bytes or more yields at most 64; a block that claims more lies."""


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    position, size = len(_XERIAL_HEADER), len(view)
    if size < position:
        raise CorruptBatchError("snappy payload: the header is cut")
    while position < size:
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams written one after the other
            continue
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        if not 0 <= length <= size - position:
            raise CorruptBatchError(f"snappy payload: a block of {length} bytes")
        yield view[position : position + length]
        position += length


# --- lz4 ----------------------------------------------------------------------------------

_LZ4_MAGIC: Final = 0x184D2204
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
"""Version 1, independent blocks, no checksums, blocks of 64 KB, and the header's own checksum:
the very bytes that Kafka's Lz4BlockOutputStream writes."""
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_START: Final = struct.Struct("<IBB")
_LZ4_SIZE: Final = struct.Struct("<I")
_LZ4_SMALL: Final = struct.Struct("<IBBBI")
"""Where a frame tells nothing but its blocks: the size of the first one follows the descriptor."""
_LZ4_SMALL_FLAGS: Final = 0b11011011
"""Version, block checksums, content size, a dictionary."""
_LZ4_RATIO: Final = 255
"""A byte of a block yields at most so many."""


def _lz4(body: bytes | bytearray, effort: Effort) -> bytes:
    out: list[bytes | bytearray] = [_LZ4_HEADER]
    mode: Literal["default", "high_compression"] = (
        "default" if effort is Effort.FAST else "high_compression"
    )
    with memoryview(body) as view:
        for start in range(0, len(view), _LZ4_BLOCK):
            plain = view[start : start + _LZ4_BLOCK]
            packed = bytearray(cramjam.lz4.compress_block_bound(plain))
            del packed[
                cramjam.lz4.compress_block_into(plain, packed, mode=mode, store_size=False) :
            ]
            if len(packed) < len(plain):
                out += (_LZ4_SIZE.pack(len(packed)), packed)
            else:
                out += (_LZ4_SIZE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    out.append(_LZ4_SIZE.pack(0))
    return b"".join(out)


def _unlz4(payload: bytes | bytearray | memoryview, limit: int) -> bytearray:
    """A frame of one block of 64 KB at most, as small batches have, without the others' steps."""
    view = memoryview(payload)
    if len(view) > _LZ4_SMALL.size:
        magic, flags, descriptor, _, size = _LZ4_SMALL.unpack_from(view)
        end = _LZ4_SMALL.size + size
        rest = _LZ4_SIZE.size + (4 if flags & 0x04 else 0)
        is_plain = magic == _LZ4_MAGIC and flags & _LZ4_SMALL_FLAGS == 0x40 and descriptor == 0x40
        if is_plain and len(view) == end + rest and not _LZ4_SIZE.unpack_from(view, end)[0]:
            out = bytearray(min(_LZ4_RATIO * size, limit + 1, _LZ4_BLOCK))
            del out[cramjam.lz4.decompress_block_into(view[_LZ4_SMALL.size : end], out) :]
            return out
    return _unlz4_blocks(view, limit)


def _unlz4_blocks(view: memoryview, limit: int) -> bytearray:
    magic, flags, descriptor = _LZ4_START.unpack_from(view)
    if magic != _LZ4_MAGIC or flags >> 6 != 1 or not 4 <= descriptor >> 4 & 7 <= 7:
        raise CorruptBatchError("lz4 payload: no frame header")
    content_size, block_sums = bool(flags & 0x08), bool(flags & 0x10)
    position = _LZ4_START.size + (8 if content_size else 0) + 1
    most = 1 << 2 * (descriptor >> 4 & 7) + 8  # 4 MB with some libraries, also for a single record
    scratch = bytearray(min(most, limit + 1))
    out = bytearray()
    while True:
        (size,) = _LZ4_SIZE.unpack_from(view, position)
        position += _LZ4_SIZE.size
        if size == 0:
            return out
        stored, size = bool(size & _LZ4_STORED), size & ~_LZ4_STORED
        block = view[position : position + size]
        if len(block) != size or size > most:
            raise CorruptBatchError(f"lz4 payload: a block of {size} bytes")
        if stored:
            out += block
        else:
            out += memoryview(scratch)[: cramjam.lz4.decompress_block_into(block, scratch)]
        if len(out) > limit:
            raise _too_much(limit)
        position += size + (4 if block_sums else 0)


# --- zstd ---------------------------------------------------------------------------------


def _zstd(body: bytes | bytearray, effort: Effort) -> bytes:
    return zstd.pack(body, zstd.FAST if effort is Effort.FAST else 6)


_COMPRESS: Final[dict[Codec, Callable[[bytes | bytearray, Effort], bytes]]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESS: Final[dict[Codec, Inflater]] = {
    Codec.NONE: _uncopy,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: zstd.unpack,
}
