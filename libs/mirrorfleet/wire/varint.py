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
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _MOST_SHIFT:
            raise CorruptBatchError("a varint is longer than 64 bits")
    value &= _64_BITS
    return (value >> 1) ^ -(value & 1), position


def _encode(zigzag: int) -> bytes:
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL: Final = tuple(_encode(zigzag) for zigzag in range(1 << 14))
"""Every one- and two-byte varint: nearly all lengths and deltas of real batches."""


def write_varint(value: int) -> bytes:
    """The bytes of a number of at most 64 bits with sign."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return _SMALL[zigzag] if zigzag < len(_SMALL) else _encode(zigzag)


def wrap_64(value: int) -> int:
    """The number as 64 signed bits hold it, as Java's addition of timestamps overflows."""
    return ((value + (1 << 63)) & _64_BITS) - (1 << 63)
