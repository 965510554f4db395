"""Copy batches made from copy batches: merged, split, and with records left out.

    split   one batch over the target's limit  ->  several, cut between records
    merge   tiny batches of one partition      ->  one
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
from mirrorfleet.wire.joining import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from mirrorfleet.wire.copybatch import Terms
    from mirrorfleet.wire.framing import Framed

MERGE_BELOW: Final = 2048
"""Batches below this many bytes are cheaper to merge than to send: a header, a broker append and
a transaction check each cost about as much as 2 KB of payload (measured)."""
MERGE_RECORDS: Final = 32
"""So are batches of at most so many records, up to `MERGE_FEW_BELOW` bytes: a record takes about
1.5 us to move, a batch 70 us here to send and several hundred at a target that replicates it
(measured)."""
MERGE_FEW_BELOW: Final = 32 * 1024
"""Of larger ones too few go into a request to save anything, unless it has room."""
MERGE_LONE_RECORDS: Final = 128
"""And such of any size as long as a request would be small: that costs both sides 470 us."""
UNLIMITED: Final = 1 << 62
MERGE_UP_TO: Final = 256 * 1024
"""A merged batch stops here: larger ones save nothing more."""
PACKED_TO_FIT: Final = 2
"""A lone record more than this many times over the limit is not packed once more: another level of
a codec saves a fifth (measured with JSON), and hardly ever more than half."""
PACKED_UP_TO: Final = 8 << 20
"""Nor one of more bytes uncompressed: every slot of the worker waits for it, 0.2 s at most, again
whenever the fault is looked into."""
_GROWTH_PER_RECORD: Final = 16
"""Most bytes by which a record's length and deltas can grow when it moves to another batch."""


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


def is_small(batch: CopyBatch) -> bool:
    """Whether a batch is cheaper to merge with others than to send."""
    size = batch.size
    return size < MERGE_BELOW or (batch.count <= MERGE_RECORDS and size < MERGE_FEW_BELOW)


def mergeable(
    batches: Iterable[CopyBatch], terms: Terms, share: int = 0, limit: int = UNLIMITED
) -> int:
    """How many of the leading batches are worth merging into one (0 or 1: none).

    `share`: bytes that this partition may fill in a request before it is large enough by itself;
    `limit`: of the request.
    """
    number = size = 0
    attributes = -1
    for batch in batches:
        attributes = batch.attributes if number == 0 else attributes
        size += batch.size + _GROWTH_PER_RECORD * batch.count
        most = min(_worth(batch, share), terms.max_batch_bytes, limit)
        if size > most or batch.attributes != attributes:
            break
        number += 1
    return number


def _worth(batch: CopyBatch, share: int) -> int:
    """Up to how many bytes the batch is cheaper to merge with others than to send."""
    of_request = share if batch.count <= MERGE_LONE_RECORDS else 0
    return max(MERGE_UP_TO if is_small(batch) else 0, of_request)


def merge(batches: Sequence[CopyBatch], terms: Terms) -> CopyBatch:
    """One batch of all records; offsets absent between the batches become holes.

    Give it what `mergeable` counted. Raises: ValueError for batches of different codecs, or when
    the result is over `terms.max_batch_bytes`.
    """
    head = batches[0]
    if len(batches) == 1:
        return head
    if any(batch.attributes != head.attributes for batch in batches):
        raise ValueError("only batches of one codec can be merged")
    merged = _packed(batches) if head.attributes else join(batches)
    if merged.size > terms.max_batch_bytes:
        raise ValueError(f"merged {merged.size} bytes; the target takes {terms.max_batch_bytes}")
    return merged


def _packed(batches: Sequence[CopyBatch]) -> CopyBatch:
    builder, last = BatchBuilder(), batches[-1]
    for batch in batches:
        builder.extend(copied_records(batch))
    codec = Codec(last.attributes)
    return builder.build(codec, last.next_offset, leader_epoch=last.leader_epoch)


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
