"""Record batches as Kafka stores them: the header, walking over a byte range, the CRC.

Magic 2 (KIP-98), big endian, 61 bytes and then the records section:

     0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8
    17 crc u32, CRC-32C of [21, end)
    21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
    43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 count i32 | 61 records

Magic 0 and 1 (one message, or a compressed wrapper of many):

     0 offset i64 | 8 size i32 | 12 crc u32, CRC-32 of [16, end) | 16 magic i8 | 17 attributes i8
    18 (magic 1 only) timestamp i64 | key: i32 length, bytes | value: i32 length, bytes

Nothing here looks into the records section. Errors: `CorruptBatchError`, never another.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.checksum import combine, crc32c
from mirrorfleet.wire.codecs import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
CRC_START: Final = 21
"""The first byte that a magic 2 batch's CRC covers."""
LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that its length field does not count: base offset and length."""
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""The header of magic 2."""
_LENGTH_AND_MAGIC: Final = struct.Struct(">iib")
_LEGACY: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")
_BASE_AND_DELTA: Final = struct.Struct(">q15xi")
"""Base offset and last offset delta of magic 2."""
_THROUGH_MAGIC: Final = 17
_LEAST_LENGTH: Final = {0: 14, 1: 22, 2: HEADER_SIZE - LENGTH_OVERHEAD}
"""By magic: a length below this cannot hold the fixed fields."""


class BatchHeader(NamedTuple):
    """One complete batch, at [start, end) of its buffer.

    For magic 0 and 1 a message is a batch: `base_offset` is its offset (of a compressed wrapper,
    that of the *last* message inside), `count` is -1 for a wrapper, absent fields are -1.
    """

    start: int
    end: int
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; tuple.count has no use here

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.end - self.start

    @property
    def codec(self) -> Codec:
        """The codec of the records section. Raises: CorruptBatchError for the ids 5-7."""
        bits = self.attributes & CODEC_MASK
        if bits > Codec.ZSTD:
            raise CorruptBatchError(f"codec id {bits} does not exist", offset=self.base_offset)
        return Codec(bits)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker (never a user's record)."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, the broker's time of append."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def last_offset(self) -> SourceOffset:
        """Offset of the last record (or where it was, before compaction)."""
        return SourceOffset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> SourceOffset:
        """Where the next batch may begin."""
        return SourceOffset(self.base_offset + self.last_offset_delta + 1)


def walk(buffer: Buffer, start: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
    """The complete batches of a byte range, in order; CRCs are not looked at.

    A broker cuts the range anywhere, so a partial batch at its end is legal and left out.
    Raises: CorruptBatchError when a length or a magic is impossible.
    """
    stop = len(buffer) if end is None else end
    position = start
    unpack, new = HEADER.unpack_from, tuple.__new__
    while stop - position >= _THROUGH_MAGIC:
        length, _, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, position + 8)
        if magic not in _LEAST_LENGTH or length < _LEAST_LENGTH[magic]:
            raise CorruptBatchError(f"no batch at byte {position}: magic {magic}, length {length}")
        after = position + LENGTH_OVERHEAD + length
        if after > stop:
            return
        if magic == MAGIC:
            base, _, epoch, _, *rest = unpack(buffer, position)
            yield new(BatchHeader, (position, after, base, epoch, magic, *rest))
        else:
            yield _legacy_header(buffer, position, after)
        position = after


def cut_off(buffer: Buffer, start: int, end: int) -> tuple[SourceOffset, SourceOffset] | None:
    """First offset of the batch that begins at `start` and is not whole, and the one behind it.

    None when too little of it is there, or when it is not of magic 2.
    """
    if end - start < _BASE_AND_DELTA.size or buffer[start + _THROUGH_MAGIC - 1] != MAGIC:
        return None
    base, delta = _BASE_AND_DELTA.unpack_from(buffer, start)
    return SourceOffset(base), SourceOffset(base + delta + 1)


def verify(buffer: Buffer, header: BatchHeader) -> None:
    """Check the CRC: CRC-32C for magic 2, CRC-32 for magic 0 and 1.

    Raises: CorruptBatchError naming both sums.
    """
    view = memoryview(buffer)
    if header.magic == MAGIC:
        found = crc32c(view[header.start + CRC_START : header.end])
    else:
        found = zlib.crc32(view[header.start + 16 : header.end])
    if found != header.crc:
        raise _wrong_crc(header, found)


def verified_payload(view: memoryview, header: BatchHeader) -> tuple[memoryview, int]:
    """The records section of a magic 2 batch, uncopied, and its CRC-32C; the batch is verified.

    One pass over the payload. Raises: CorruptBatchError for a wrong CRC, or for header fields
    that no broker writes (negative counts, codec ids 5-7).
    """
    start = header.start
    payload = view[start + HEADER_SIZE : header.end]
    payload_crc = crc32c(payload)
    covered = crc32c(view[start + CRC_START : start + HEADER_SIZE])
    found = combine(covered, payload_crc, len(payload))
    if found != header.crc:
        raise _wrong_crc(header, found)
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        _ = header.codec
    if header.last_offset_delta < 0 or header.count < 0:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: lastOffsetDelta {header.last_offset_delta},"
            f" count {header.count}",
            offset=header.base_offset,
        )
    return payload, payload_crc


def _legacy_header(buffer: Buffer, start: int, end: int) -> BatchHeader:
    offset, _, crc, magic, attributes = _LEGACY.unpack_from(buffer, start)
    timestamp = -1 if magic == 0 else _TIMESTAMP.unpack_from(buffer, start + _LEGACY.size)[0]
    return BatchHeader(
        start=start,
        end=end,
        base_offset=offset,
        leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=-1 if attributes & CODEC_MASK else 1,
    )


def _wrong_crc(header: BatchHeader, found: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"batch at offset {header.base_offset} ({header.size} bytes) has CRC {found:08x},"
        f" its header says {header.crc:08x}",
        offset=header.base_offset,
    )
