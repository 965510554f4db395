"""Small batches of one partition put into one: what many tiny appends left behind.

    plain        [61 bytes, r0] [61 bytes, r1] ...              ->  [61 bytes, r0 r1 ...]
    compressed   [61 bytes, zstd(r0)] [61 bytes, zstd(r1)] ...  ->  [61 bytes, zstd(r0 r1 ...)]
    mixed        [61 bytes, r0] [61 bytes, zstd(r1)] ...        ->  [61 bytes, zstd(r0 r1 ...)]

A request carries one batch of a partition, so a backlog of tiny ones costs a request each, and the
target an append, its replication and a transaction check. Record timestamps and source offsets
stay; offsets absent between the batches become holes; of several codecs it is the one with most
bytes, which readers of the partition know. Large batches are sent as they are.

Compressed ones are opened and compressed together: 5 us for a batch of one record, 40 to 100 for
one of 32, where sending it costs 70 us here and at the target 0.4 to 1.5 ms with its copies
(measured). Of one record each they are a third to a fifth of their bytes together, which is what a
line between regions carries.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.builder import BatchBuilder
from mirrorfleet.wire.checksum import crc32c
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.copybatch import CopyBatch
from mirrorfleet.wire.joining import join
from mirrorfleet.wire.reshape import copied_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.wire.copybatch import Terms
    from mirrorfleet.wire.framing import Framed

MERGE_BELOW: Final = 2048
"""Batches below this many bytes are cheaper to merge than to send: a header, a broker append and
a transaction check each cost about as much as 2 KB of payload (measured)."""
MERGE_RECORDS: Final = 32
"""So are plain batches of at most so many records, up to `MERGE_FEW_BELOW` bytes: a record takes
about 1.5 us to move, a batch 70 us here to send and several hundred at a target that replicates it
(measured)."""
MERGE_FEW_BELOW: Final = 32 * 1024
"""Of larger ones too few go into a request to save anything, unless it has room."""
MERGE_LONE_RECORDS: Final = 128
"""And such of any size as long as a request would be small: that costs both sides 470 us."""
MERGE_UP_TO: Final = 256 * 1024
"""A merged batch stops here: larger ones save nothing more."""
MERGE_MOST: Final = 4_096
"""Batches looked at for one merge; more would make each look longer and the batch no cheaper."""
MERGE_LEAST: Final = 2
PACK_RECORDS: Final = 64
"""Compressed batches of more records cost more to open than it saves to send them together,"""
PACK_BELOW: Final = 8 * 1024
"""so do those of more bytes,"""
PACK_INFLATED: Final = 32 * 1024
"""and of more bytes uncompressed: gzip takes up to 10 us for each KB."""
PACK_MOST: Final = 512
"""Compressed batches in one: 10 ms in the event loop, and hardly a byte fewer with more."""
_SOON: Final = 8
"""A run of plain batches is one when so many are: a few between others are opened with them."""
UNLIMITED: Final = 1 << 62
_GROWTH_PER_RECORD: Final = 16
"""Most bytes by which a record's length and deltas can grow when it moves to another batch."""
_FRAMING: Final = 1024
"""Bytes of a header, of what codecs put around blocks of up to `MERGE_UP_TO` bytes (300), and by
which the records of the last batch grow."""


class Merged(NamedTuple):
    """One batch, and how many of the leading ones it stands for (at least two)."""

    batch: CopyBatch
    taken: int


def goes_alone(first: CopyBatch, second: CopyBatch, share: int) -> bool:
    """Whether `merged` would surely find nothing: of a backlog that is nearly always so."""
    size = first.size
    if first.count <= PACK_RECORDS and size < PACK_BELOW:
        return False  # it may be opened and put together with compressed ones
    if first.attributes or second.attributes:
        return True
    both = size + second.size + _GROWTH_PER_RECORD * (first.count + second.count)
    return both > _worth(second, share)


def merged(
    batches: Iterable[CopyBatch], terms: Terms, share: int = 0, limit: int = UNLIMITED
) -> Merged | None:
    """The leading batches in one; None where the first is better sent as it is.

    `share`: bytes that this partition may fill in a request before it is large enough by itself;
    `limit`: of the request. Where records are not what their header and checksum say the merge
    ends before them, or is none: alone such a batch is refused by the target, which names it.
    """
    looked_at = islice(batches, MERGE_MOST)
    first = list(islice(looked_at, _SOON))
    if len(first) < MERGE_LEAST:
        return None
    most = min(terms.max_batch_bytes, limit)
    try:
        if any(batch.attributes for batch in first):
            found = _packed(chain(first, looked_at), most)
            if found is not None or first[0].attributes:
                return found  # else it took one at most: none behind `first` was looked at
        return _joined(chain(first, looked_at), share, most)
    except MemoryError:
        return None  # as it is the first one needs no more of it


# --- plain ----------------------------------------------------------------------------------


def _joined(batches: Iterable[CopyBatch], share: int, most: int) -> Merged | None:
    taken: list[CopyBatch] = []
    size = 0
    for batch in batches:
        size += batch.size + _GROWTH_PER_RECORD * batch.count
        if size > min(_worth(batch, share), most) or batch.attributes:
            break
        taken.append(batch)
    if len(taken) < MERGE_LEAST:
        return None
    try:
        return Merged(join(taken), len(taken))
    except CorruptBatchError:
        return None


def _worth(batch: CopyBatch, share: int) -> int:
    """Up to how many bytes the batch is cheaper to merge with others than to send."""
    of_request = share if batch.count <= MERGE_LONE_RECORDS else 0
    return max(MERGE_UP_TO if _is_small(batch) else 0, of_request)


def _is_small(batch: CopyBatch) -> bool:
    size = batch.size
    return size < MERGE_BELOW or (batch.count <= MERGE_RECORDS and size < MERGE_FEW_BELOW)


# --- compressed -----------------------------------------------------------------------------


def _packed(batches: Iterable[CopyBatch], most: int) -> Merged | None:
    builder, taken = BatchBuilder(), list[CopyBatch]()
    room = inflated_within(min(MERGE_UP_TO, most))
    for batch in islice(batches, PACK_MOST):
        is_next = not taken or batch.first >= taken[-1].next_offset
        if not is_next or (records := _opened(batch, room - builder.raw_size)) is None:
            break
        builder.extend(records)
        taken.append(batch)
    if len(taken) < MERGE_LEAST:
        return None
    last = taken[-1]
    whole = builder.build(_codec_of(taken), last.next_offset, leader_epoch=last.leader_epoch)
    whole.max_timestamp = max(batch.max_timestamp for batch in taken)
    return Merged(whole, len(taken))


def _codec_of(batches: Iterable[CopyBatch]) -> Codec:
    """The codec of most of their bytes; none only where all are plain."""
    sizes: Counter[int] = Counter()
    for batch in batches:
        if batch.attributes:
            sizes[batch.attributes] += batch.size
    return Codec(max(sizes, key=lambda each: sizes[each], default=Codec.NONE))


def _opened(batch: CopyBatch, room: int) -> list[Framed] | None:
    """Its records; None where they are many, dear to open, of more than `room` bytes, or wrong."""
    if batch.count > PACK_RECORDS or batch.size >= PACK_BELOW or room <= 0:
        return None
    if crc32c(batch.payload) != batch.payload_crc:
        return None
    try:
        return list(copied_records(batch, min(room, PACK_INFLATED)))
    except CorruptBatchError:
        return None


def inflated_within(most: int) -> int:
    """Bytes of records whose batch is never more than `most`, however badly they are compressed:
    snappy grows by a sixth at worst, the others by less.
    """
    return (most - _FRAMING) * 6 // 7
