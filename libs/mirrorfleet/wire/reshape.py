"""Copy batches made from a copy batch: split, and with records left out (`merging` has the rest).

    split   one batch over the target's limit  ->  several, cut between records
    without records that the target refuses    ->  holes

Each keeps the codec, record timestamps and source offsets; holes grow, records never move.
Errors: CorruptBatchError when a payload is not what its header said (the fast path never looked).
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.builder import BatchBuilder
from mirrorfleet.wire.codecs import MAX_INFLATED, Codec, Effort, decompress
from mirrorfleet.wire.copybatch import BatchFault, CopyBatch, FaultKind
from mirrorfleet.wire.framing import framed_records, has_null_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mirrorfleet.wire.framing import Framed

PACKED_TO_FIT: Final = 2
"""A lone record more than this many times over the limit is not packed once more: another level of
a codec saves a fifth (measured with JSON), and hardly ever more than half."""
PACKED_UP_TO: Final = 8 << 20
"""Nor one of more bytes uncompressed: every slot of the worker waits for it, 0.2 s at most, again
whenever the fault is looked into."""


class Division(NamedTuple):
    """Pieces in order; on a fault, they hold every record before the faulty one."""

    batches: list[CopyBatch]
    fault: BatchFault | None


def divide(batch: CopyBatch, max_batch_bytes: int, max_alone: int | None = None) -> Division:
    """The batch in pieces of at most `max_batch_bytes`, header included, cut between records.

    A record that is larger than `max_alone` (the same limit by default) is a fault at its offset,
    with its size and the limit.
    """
    if batch.size <= max_batch_bytes:
        return Division([batch], None)
    if batch.count == 1:
        return _alone(batch, max_alone or max_batch_bytes)
    done: list[CopyBatch] = []
    for piece in _pieces(batch, -(-batch.size // max_batch_bytes)):
        division = divide(piece, max_batch_bytes, max_alone)
        done += division.batches
        if division.fault:
            return Division(done, division.fault)
    return Division(done, None)


def split(batch: CopyBatch, max_batch_bytes: int) -> list[CopyBatch] | BatchFault:
    """As `divide`, for a caller that wants all pieces or none."""
    division = divide(batch, max_batch_bytes)
    return division.fault or division.batches


def find_null_keys(batch: CopyBatch) -> list[SourceOffset]:
    """Source offsets of the records without key."""
    return [SourceOffset(offset) for offset, _, tail in copied_records(batch) if has_null_key(tail)]


def without(batch: CopyBatch, offsets: Collection[int]) -> CopyBatch | None:
    """The batch with these records left out; None when none is left."""
    builder = BatchBuilder()
    builder.extend(record for record in copied_records(batch) if record[0] not in offsets)
    if not builder.count:
        return None
    return builder.build(
        Codec(batch.attributes), batch.next_offset, leader_epoch=batch.leader_epoch
    )


def before(batch: CopyBatch, offset: SourceOffset) -> CopyBatch | None:
    """The records below a source offset, ending there; None when there is none."""
    builder = BatchBuilder()
    builder.extend(takewhile(lambda record: record[0] < offset, copied_records(batch)))
    if not builder.count:
        return None
    end = min(offset, batch.next_offset)
    return builder.build(Codec(batch.attributes), end, leader_epoch=batch.leader_epoch)


def source_offset(batch: CopyBatch, index: int) -> SourceOffset:
    """Source offset of the record at `index`: how a broker names a refused record (KIP-467)."""
    offset = batch.first + index
    for start, size in batch.holes:
        if start > offset:
            break
        offset += size
    return SourceOffset(offset)


def copied_records(batch: CopyBatch, limit: int = MAX_INFLATED) -> Iterator[Framed]:
    """(source offset, timestamp, tail) of each record; at most `limit` bytes uncompressed.

    Raises: CorruptBatchError, also when the records are not numbered 0, 1, ...
    """
    body = decompress(Codec(batch.attributes), batch.payload, limit)
    records = framed_records(body, batch.count, base_timestamp=batch.base_timestamp)
    for index, (offset, record) in enumerate(zip(_offsets(batch), records, strict=True)):
        number, timestamp, tail = record
        if number != index:
            raise CorruptBatchError(
                f"the record at offset {offset} is numbered {number}, not {index}", offset=offset
            )
        yield offset, timestamp, tail


def _offsets(batch: CopyBatch) -> Iterator[int]:
    """The source offsets that have a record: `count` of them."""
    position: int = batch.first
    for hole, missing in batch.holes:
        yield from range(position, hole)
        position = hole + missing
    yield from range(position, batch.next_offset)


def _alone(batch: CopyBatch, max_batch_bytes: int) -> Division:
    """One record: as it is, packed smaller where that may be enough, or a fault."""
    size = batch.size
    if size <= max_batch_bytes:
        return Division([batch], None)
    ((offset, timestamp, tail),) = copied_records(batch)
    if len(tail) <= PACKED_UP_TO and size <= PACKED_TO_FIT * max_batch_bytes:
        builder = BatchBuilder()
        builder.append(offset, timestamp, tail)
        small = builder.build(
            Codec(batch.attributes),
            batch.next_offset,
            leader_epoch=batch.leader_epoch,
            effort=Effort.SMALL,
        )
        size = small.size
        if size <= max_batch_bytes:
            return Division([small], None)
    detail = (
        f"a record of {len(tail)} bytes makes a batch of {size} bytes;"
        f" max.message.bytes of the target topic is {max_batch_bytes}"
    )
    return Division([], BatchFault(batch.first, FaultKind.TOO_LARGE, detail))


def _pieces(batch: CopyBatch, parts: int) -> Iterator[CopyBatch]:
    """About `parts` batches (2 at least when it has 2 records) of similar uncompressed size.

    Reads the records twice, so that a batch of millions never stands in memory as objects.
    """
    target = sum(len(tail) for _, _, tail in copied_records(batch)) // parts
    builder, filled = BatchBuilder(), 0
    for offset, timestamp, tail in copied_records(batch):
        if builder.count and filled + len(tail) > target:
            yield builder.build(Codec(batch.attributes), offset, leader_epoch=batch.leader_epoch)
            builder, filled = BatchBuilder(), 0
        builder.append(offset, timestamp, tail)
        filled += len(tail)
    yield builder.build(Codec(batch.attributes), batch.next_offset, leader_epoch=batch.leader_epoch)
