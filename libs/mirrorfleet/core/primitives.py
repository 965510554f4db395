"""Kafka's primitive types as bytes: varints and strings, read and written.

Stands alone: knows nothing of requests or records. Readers take (buffer, position) and return
(value, next position); they raise `IndexError` past the end of the buffer and `ValueError` for a
varint that is too long. Source: the protocol guide, "Protocol Primitive Types" (KIP-482 for the
compact forms).
"""

from __future__ import annotations

import struct
from typing import Final

Buffer = bytes | bytearray | memoryview

NULL_COMPACT: Final = b"\0"
"""A compact string, byte array or array that is null (its length + 1 is 0)."""

NO_TAGS: Final = b"\0"
"""An empty section of tagged fields (KIP-482)."""

_MAX_VARINT_BYTES: Final = 10
_INT16: Final = struct.Struct(">h")
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def uvarint(value: int) -> bytes:
    """An unsigned varint, least significant group first. `value` >= 0."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of up to ten bytes."""
    byte = buffer[position]
    position += 1
    if byte < 128:
        return byte, position
    value = byte & 127
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise ValueError("varint is longer than ten bytes")


def compact_string(text: str | None) -> bytes:
    """COMPACT_NULLABLE_STRING: length + 1 as varint, then UTF-8."""
    if text is None:
        return NULL_COMPACT
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def read_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """COMPACT_NULLABLE_STRING; null is None."""
    raw, position = read_compact_bytes(buffer, position)
    return (None if raw is None else raw.decode()), position


def read_compact_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    """COMPACT_NULLABLE_BYTES as a copy; null is None."""
    size, position = read_uvarint(buffer, position)
    if size == 0:
        return None, position
    end = position + size - 1
    if end > len(buffer):
        raise IndexError("byte string runs past the end of the buffer")
    return bytes(buffer[position:end]), end


def legacy_string(text: str | None) -> bytes:
    """NULLABLE_STRING: INT16 length (-1 is null), then UTF-8."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position after a section of tagged fields, whatever is in it."""
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    return position
