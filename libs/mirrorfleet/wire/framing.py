"""Records inside the (uncompressed) records section of a magic 2 batch.

    length varint | attributes i8 | timestampDelta varlong | offsetDelta varint | tail
    tail = keyLength varint, key | valueLength varint, value | count varint, headers
    (a length of -1 is null)

Re-encoding changes offsets and timestamps only, so a record is (offset, timestamp, tail) and its
tail is copied as bytes. Reading is lazy: what a header claims costs nothing until it is there.
Errors: CorruptBatchError, never another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.varint import read_varint, wrap_64, write_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Framed = tuple[int, int, bytes]
"""A record as the copying path sees it: offset, timestamp in ms, tail."""

Header = tuple[bytes, bytes | None]
"""A record header: its key (UTF-8) and value, kept as bytes."""


_MOST_64: Final = (1 << 63) - 1


class Contents(NamedTuple):
    """What a tail holds. Order and repetition of headers are the user's."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def framed_records(
    body: bytes | bytearray, count: int, base_offset: int = 0, base_timestamp: int = 0
) -> Iterator[Framed]:
    """Each record, its deltas added to the bases. (One-byte varints are read in line: the loop
    of every re-encoded batch.)

    Raises: CorruptBatchError when the records do not fill the bytes exactly, as Java's iterator.
    """
    position, size = 0, len(body)
    try:
        for _ in range(count):
            length, start = read_varint(body, position)
            end = start + length
            byte, after = body[start + 1], start + 2
            if byte < 0x80:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            else:
                delta, after = read_varint(body, start + 1)
                timestamp = base_timestamp + delta
            if not -_MOST_64 <= timestamp <= _MOST_64:
                timestamp = wrap_64(timestamp)
            byte = body[after]
            if byte < 0x80:
                offset, after = base_offset + ((byte >> 1) ^ -(byte & 1)), after + 1
            else:
                delta, after = read_varint(body, after)
                offset = base_offset + delta
            if not after <= end <= size:
                raise CorruptBatchError(f"a record of {length} bytes does not fit its batch")
            yield offset, timestamp, bytes(body[after:end])
            position = end
    except IndexError:
        raise CorruptBatchError(f"the batch ends before its {count} records") from None
    if position != size:
        raise CorruptBatchError(f"{size - position} bytes follow the batch's {count} records")


def has_null_key(tail: bytes) -> bool:
    """Whether the record has no key (an empty key is a key)."""
    try:
        return read_varint(tail, 0)[0] < 0
    except IndexError:
        raise CorruptBatchError("a record ends before its key") from None


def key_and_rest(tail: bytes) -> tuple[bytes | None, int]:
    """The key, and the position after it in the tail."""
    try:
        return _read_bytes(tail, 0)
    except IndexError:
        raise CorruptBatchError("a record ends before its key") from None


def contents_of(tail: bytes) -> Contents:
    """The tail taken apart. Raises: CorruptBatchError unless the parts fill it exactly."""
    try:
        key, position = _read_bytes(tail, 0)
        value, position = _read_bytes(tail, position)
        count, position = read_varint(tail, position)
        if not 0 <= count <= len(tail) - position:
            raise CorruptBatchError(f"a record claims {count} headers")
        headers: list[Header] = []
        for _ in range(count):
            name, position = _read_bytes(tail, position)
            if name is None:
                raise CorruptBatchError("a record header has no key")
            content, position = _read_bytes(tail, position)
            headers.append((name, content))
    except IndexError:
        raise CorruptBatchError("a record ends inside its fields") from None
    if position != len(tail):
        raise CorruptBatchError(f"{len(tail) - position} bytes follow a record's fields")
    return Contents(key, value, tuple(headers))


def tail_of(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bytes:
    """The bytes of a record after its deltas."""
    parts = [_bytes_field(key), _bytes_field(value), write_varint(len(headers))]
    for name, content in headers:
        parts += (_bytes_field(name), _bytes_field(content))
    return b"".join(parts)


def _read_bytes(tail: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(tail, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(tail):
        raise CorruptBatchError(f"a field of {length} bytes does not fit its record")
    return tail[position:end], end


def _bytes_field(content: bytes | None) -> bytes:
    return b"\x01" if content is None else write_varint(len(content)) + content
