"""A source batch that cannot pass as it is, rebuilt: trimmed, without holes, with its true times.

Codec and record timestamps are kept (a LogAppendTime batch's records all have its max timestamp,
which is what its consumers see), offsets become dense and the gaps are remembered as holes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.batch import HEADER_SIZE, MAGIC, BatchHeader
from mirrorfleet.wire.builder import BatchBuilder
from mirrorfleet.wire.codecs import MAX_INFLATED, decompress
from mirrorfleet.wire.copybatch import (
    BatchFault,
    CopyBatch,
    Dropped,
    FaultKind,
    NullKeys,
    Terms,
)
from mirrorfleet.wire.framing import framed_records, has_null_key
from mirrorfleet.wire.legacy import legacy_records
from mirrorfleet.wire.reshape import divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mirrorfleet.wire.framing import Framed


class Rebuilt(NamedTuple):
    """What came of a batch; on a fault, `batches` holds every record before it."""

    batches: list[CopyBatch]
    dropped: list[Dropped]
    fault: BatchFault | None


def source_records(
    view: memoryview, header: BatchHeader, limit: int = MAX_INFLATED
) -> Iterator[Framed]:
    """(offset, timestamp, tail) of each record of a verified batch of any magic, lazily.

    Raises: CorruptBatchError, also for more than `limit` bytes uncompressed.
    """
    if header.magic < MAGIC:
        return legacy_records(view, header, limit)
    body = decompress(header.codec, view[header.start + HEADER_SIZE : header.end], limit)
    records = framed_records(body, header.count, header.base_offset, header.base_timestamp)
    if not header.is_log_append_time:
        return records
    append_time = header.max_timestamp
    return ((offset, append_time, tail) for offset, _, tail in records)


def lacks_keys(view: memoryview, header: BatchHeader) -> bool:
    """Whether any record of the batch has no key."""
    return any(has_null_key(tail) for _, _, tail in source_records(view, header))


def rebuild(view: memoryview, header: BatchHeader, wanted: SourceOffset, terms: Terms) -> Rebuilt:
    """The records of a magic 2 batch from `wanted` on, as batches that the target takes."""
    builder = BatchBuilder()
    records = source_records(view, header)
    dropped, fault = admit(records, builder, wanted, terms)
    end = fault.offset if fault else header.next_offset
    rebuilt = Rebuilt([], dropped, fault)
    if builder.count:
        batch = builder.build(header.codec, end, leader_epoch=header.leader_epoch)
        rebuilt = fitted(batch, terms, rebuilt)
    return rebuilt


def admit(
    records: Iterable[Framed], builder: BatchBuilder, wanted: SourceOffset, terms: Terms
) -> tuple[list[Dropped], BatchFault | None]:
    """Append the records from `wanted` on that policy lets through; stop at a fault."""
    rest = (record for record in records if record[0] >= wanted)
    if terms.left_out:
        rest = (record for record in rest if not terms.leaves_out(record[0]))
    looks_at_keys, refused = terms.null_keys is not NullKeys.ALLOW, terms.refused
    if not looks_at_keys and refused is None:
        builder.extend(rest)
        return [], None
    dropped: list[Dropped] = []
    for offset, timestamp, tail in rest:
        if refused is not None and offset == refused.offset:
            return dropped, refused
        if not (looks_at_keys and has_null_key(tail)):
            builder.append(offset, timestamp, tail)
        elif terms.null_keys is NullKeys.DROP_RECORDED:
            dropped.append(Dropped(SourceOffset(offset), FaultKind.NULL_KEY))
        else:
            detail = "the record has no key and the target topic is compacted"
            return dropped, BatchFault(SourceOffset(offset), FaultKind.NULL_KEY, detail)
    return dropped, None


def fitted(batch: CopyBatch, terms: Terms, so_far: Rebuilt) -> Rebuilt:
    """Add the batch to what came before it, split where it is over the target's limit.

    A fault of the split comes before any that was found later in the same batch.
    """
    division = divide(batch, terms.max_batch_bytes, terms.most_alone)
    batches = so_far.batches + division.batches
    return Rebuilt(batches, so_far.dropped, division.fault or so_far.fault)
