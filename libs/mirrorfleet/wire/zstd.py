"""Zstandard as record batches have it: frames of RFC 8878 in a row, bounded before they are read.

Java's frames do not tell their size, so the room is counted from the headers of their blocks. The
library is zstandard: without memory it says so, as no other at hand does.
"""

from __future__ import annotations

import struct
import threading
from typing import Final

import zstandard

from mirrorfleet.core.errors import CorruptBatchError

FAST: Final = 1
"""The level that keeps up with fetching; its contexts are kept."""
_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A5
_MAGIC_LAYOUT: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<IB")
_SKIP: Final = struct.Struct("<II")
_BLOCK: Final = struct.Struct("<BH")
_BLOCK_MOST: Final = 128 * 1024
_RAW, _RLE, _PACKED = range(3)
_LEAST: Final = 20
"""Longer than any header of a frame and its first block."""


class _Context(threading.local):
    """One a thread, used again: for a small payload a new one is ten times the work."""

    def __init__(self) -> None:
        self.reader = zstandard.ZstdDecompressor()
        self.writer = zstandard.ZstdCompressor(level=FAST)


_context: Final = _Context()


def pack(body: bytes | bytearray, level: int) -> bytes:
    """One frame. Raises: zstandard.ZstdError and MemoryError, both where memory is missing."""
    if level == FAST:
        return _context.writer.compress(body)
    return zstandard.ZstdCompressor(level=level).compress(body)


def unpack(payload: bytes | bytearray | memoryview, limit: int) -> bytes | bytearray:
    """A frame of one block, as small batches have; others have the way that bounds and joins them.

    That it is one is looked at here: of frames that do not tell their size the library reads the
    first and says nothing of those behind it.
    """
    if _is_one_block(memoryview(payload)):
        most = min(limit, _BLOCK_MOST)
        try:
            if zstandard.frame_content_size(payload) <= most:  # -1: it does not tell
                return _context.reader.decompress(payload, max_output_size=most)
        except zstandard.ZstdError:
            pass  # more than fits, or damaged: which of the two is found out there
    return _of_frames(payload, limit)


def _is_one_block(view: memoryview) -> bool:
    if len(view) <= _LEAST or _MAGIC_LAYOUT.unpack_from(view)[0] != _MAGIC:
        return False
    flags = view[4]
    single, checksum = flags >> 5 & 1, flags & 4
    begin = 6 - single + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    block = int.from_bytes(view[begin : begin + 3], "little")
    is_raw_or_packed = block & 1 and block >> 1 & 3 in {_RAW, _PACKED}
    return bool(is_raw_or_packed) and begin + 3 + (block >> 3) + checksum == len(view)


def _of_frames(payload: bytes | bytearray | memoryview, limit: int) -> bytearray:
    """One pass into room for what the blocks can hold."""
    out = bytearray(min(limit + 1, _most_in(memoryview(payload))))
    with _context.reader.stream_reader(payload, read_across_frames=True) as reader:
        del out[reader.readinto(out) :]
    return out


def _most_in(view: memoryview) -> int:
    """The most bytes that the frames can hold, from their block headers alone (RFC 8878).

    Where they end before they say is found out here: the library reads up to there and is content.
    """
    most = position = 0
    while position < len(view):
        (magic,) = _MAGIC_LAYOUT.unpack_from(view, position)
        if magic >> 4 == _SKIPPABLE:
            position += _SKIP.size + _SKIP.unpack_from(view, position)[1]
            continue
        if magic != _MAGIC:
            raise CorruptBatchError("zstd payload: no frame")
        flags = _FRAME.unpack_from(view, position)[1]
        single = flags >> 5 & 1
        content_size = (single, 2, 4, 8)[flags >> 6]
        dictionary_id = (0, 1, 2, 4)[flags & 3]
        position += _FRAME.size + (1 - single) + dictionary_id + content_size
        inside, position = _most_in_blocks(view, position)
        most += inside
        position += 4 if flags & 4 else 0
    if position != len(view):
        raise CorruptBatchError("zstd payload: cut short")
    return most


def _most_in_blocks(view: memoryview, position: int) -> tuple[int, int]:
    """The most bytes in the blocks of one frame, and the position after them."""
    most = last = 0
    while not last:
        low, high = _BLOCK.unpack_from(view, position)
        last, kind, size = low & 1, low >> 1 & 3, high << 5 | low >> 3
        if kind > _PACKED:
            raise CorruptBatchError("zstd payload: a reserved block")
        most += _BLOCK_MOST if kind == _PACKED else size
        position += _BLOCK.size + (1 if kind == _RLE else size)
    return most, position
