"""Zigzag varints of record batches (protocol buffers' sint32 and sint64).

Errors: CorruptBatchError for more than 64 bits; IndexError past the end of the bytes, which the
callers turn into CorruptBatchError once per batch and not once per number.
"""

from __future__ import annotations

from typing import Final

from mirrorfleet.core.errors import CorruptBatchError

_MOST_SHIFT: Final = 63
_64_BITS: Final = (1 << 64) - 1


def read_varint(body: bytes | bytearray, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = body[position + 1]
    if second < 0x80:
        return (second << 6 | (byte & 0x7F) >> 1) ^ -(byte & 1), position + 2
    return _read_long(body, position)


def _read_long(body: bytes | bytearray, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _MOST_SHIFT:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _64_BITS
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise CorruptBatchError("a varint is longer than 64 bits")


def _encode(zigzag: int) -> bytes:
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL_END: Final = 1 << 14
_SMALL: Final = tuple(_encode(zigzag) for zigzag in range(_SMALL_END))
"""Every one- and two-byte varint: nearly all lengths and deltas of real batches."""


def write_varint(value: int) -> bytes:
    """The bytes of a number of at most 64 bits with sign."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return _SMALL[zigzag] if zigzag < _SMALL_END else _encode(zigzag)


def wrap_64(value: int) -> int:
    """The number as 64 signed bits hold it, as Java's addition of timestamps overflows."""
    return ((value + (1 << 63)) & _64_BITS) - (1 << 63)
