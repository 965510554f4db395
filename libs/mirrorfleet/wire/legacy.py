"""Messages of magic 0 and 1 (before Kafka 0.11), as records.

Old segments outlive upgrades, and Fetch v4 and later hand them out as they are. A compressed
message is a wrapper whose value is a message set:

    magic 0   inner offsets are absolute; no timestamps (-1)
    magic 1   inner offsets are relative; the wrapper's offset is that of the last one inside,
              so absolute = wrapper - last relative + relative (KIP-31); when the wrapper says
              LogAppendTime, its timestamp is everyone's (KIP-32)

Source: AbstractLegacyRecordBatch. Errors: CorruptBatchError, never another.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.batch import CODEC_MASK, BatchHeader, verify, walk
from mirrorfleet.wire.codecs import MAX_INFLATED, Codec, decompress
from mirrorfleet.wire.framing import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorfleet.wire.framing import Framed

_FIELDS_START: Final = (18, 26)
"""Where the key begins, by magic."""
_LENGTH: Final = struct.Struct(">i")


class _Message(NamedTuple):
    key: bytes | None
    value: bytes | None


def legacy_records(
    view: memoryview, header: BatchHeader, limit: int = MAX_INFLATED
) -> Iterator[Framed]:
    """(offset, timestamp, tail) of the message, or of each one inside a wrapper.

    The header's CRC is the caller's to verify; those inside are verified here.
    """
    if not header.attributes & CODEC_MASK:
        message = _message_of(view, header)
        yield (
            header.base_offset,
            header.base_timestamp,
            tail_of(message.key, message.value),
        )
        return
    body = _inner_set(view, header, limit)
    last = _last_inside(body, header)
    base = header.base_offset - last if header.magic else 0
    previous = -1
    for inner in walk(body):
        verify(body, inner)
        if not previous < inner.base_offset <= header.base_offset - base:
            raise _bad_set(header, f"inner offset {inner.base_offset} out of order")
        previous = inner.base_offset
        message = _message_of(memoryview(body), inner)
        timestamp = header.base_timestamp if header.is_log_append_time else inner.base_timestamp
        yield base + inner.base_offset, timestamp, tail_of(message.key, message.value)


def _inner_set(view: memoryview, header: BatchHeader, limit: int) -> bytes | bytearray:
    value = _message_of(view, header).value
    codec = header.codec
    if value is None or codec is Codec.ZSTD:
        raise CorruptBatchError(
            f"no message set in the {codec.name.lower()} message at {header.base_offset}",
            offset=header.base_offset,
        )
    return decompress(codec, value, limit)


def _last_inside(body: bytes | bytearray, wrapper: BatchHeader) -> int:
    """The inner offset of the last message, after a check of the set's shape."""
    last: BatchHeader | None = None
    for last in walk(body):
        if last.magic != wrapper.magic or last.attributes & CODEC_MASK:
            raise _bad_set(wrapper, "a message of another magic, or compressed again")
    if last is None or last.end != len(body):
        raise _bad_set(wrapper, "a cut or empty message set")
    return last.base_offset


def _bad_set(wrapper: BatchHeader, what: str) -> CorruptBatchError:
    return CorruptBatchError(
        f"compressed message at offset {wrapper.base_offset} holds {what}",
        offset=wrapper.base_offset,
    )


def _message_of(view: memoryview, header: BatchHeader) -> _Message:
    position = header.start + _FIELDS_START[header.magic]
    key, position = _read_field(view, position, header.end)
    value, position = _read_field(view, position, header.end)
    if position != header.end:
        raise CorruptBatchError(
            f"{header.end - position} bytes follow the message at offset {header.base_offset}",
            offset=header.base_offset,
        )
    return _Message(key, value)


def _read_field(view: memoryview, position: int, stop: int) -> tuple[bytes | None, int]:
    if position + _LENGTH.size > stop:
        raise CorruptBatchError("a message ends before its fields")
    (length,) = _LENGTH.unpack_from(view, position)
    position += _LENGTH.size
    if length == -1:
        return None, position
    if not 0 <= length <= stop - position:
        raise CorruptBatchError(f"a field of {length} bytes does not fit its message")
    return bytes(view[position : position + length]), position + length
