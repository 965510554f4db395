"""The unit of copying: one record batch, its payload as it will be stored on the target.

A `CopyBatch` is made at fetch time (CRC of the source verified, payload untouched or
re-encoded) and gets its 61-byte header only when it is sent, because the producer epoch and the
base sequence are known only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset

A_BATCH: Final = 744
"""Bytes of a batch in a queue, its view and its stamps (tracemalloc, CPython 3.11)."""
A_HOLE: Final = 99
"""Bytes of a hole, as measured."""


@dataclass(slots=True, kw_only=True)
class CopyBatch:
    """One batch on its way to the target.

    source:   first ........ next_offset        (offsets of the source partition)
    records:  count of them; offsets absent from the source are in `holes`
    """

    payload: memoryview | bytes
    """The records section: what follows the 61-byte header. A view keeps its frame alive."""
    payload_crc: int
    """CRC-32C of `payload`."""
    attributes: int
    """Codec bits, and nothing else."""
    count: int
    base_timestamp: int
    max_timestamp: int
    first: SourceOffset
    """Source offset of the first record."""
    next_offset: SourceOffset
    """Source offset after the last record (or after the source batch that ended with it)."""
    holes: tuple[tuple[SourceOffset, int], ...] = ()
    """(first missing source offset, how many) inside [first, next_offset); sorted."""
    leader_epoch: int = -1
    size: int = field(init=False)
    """Bytes of the whole batch, header included. Kept, for each batch is asked ten times."""

    def __post_init__(self) -> None:
        self.size = 61 + len(self.payload)

    @property
    def oldest_timestamp(self) -> int:
        """The time of the oldest record, as near as the header tells; never after the newest.

        A cleaner writes its delete horizon, which is ahead of now, where the first record's time
        was.
        """
        return min(self.base_timestamp, self.max_timestamp)


def bytes_beside(batches: Sequence[CopyBatch]) -> int:
    """What batches that wait take beside their payloads: of small ones, or such with many holes
    (a compacted log), that is most of it.
    """
    return A_BATCH * len(batches) + A_HOLE * sum(len(batch.holes) for batch in batches)


class AbortedTransaction(NamedTuple):
    """An entry of a fetch answer's aborted list, or what a marker told (`wire.aborted`)."""

    producer_id: int
    first_offset: int


class LateAbort(NamedTuple):
    """A transaction whose records passed in an earlier answer, and that a marker aborts now."""

    producer_id: int
    first_offset: int
    marker: int


class NullKeys(StrEnum):
    """What to do with a record without key when the target topic is compacted."""

    ALLOW = "allow"
    """Do not look: the target takes them."""
    FAIL = "fail"
    """Fault at the record's offset."""
    DROP_RECORDED = "drop-recorded"
    """Leave the record out and say so; the drop is in `Walked.dropped`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the target topic takes."""

    max_batch_bytes: int = 1_048_588
    """`max.message.bytes` of the target topic: bytes of one batch, header included."""
    max_alone_bytes: int | None = None
    """Bytes of a batch of one record, where that may be more: after a refusal of unknown limit
    batches are cut smaller, but a record that cannot be cut is the target's to refuse."""
    target_append_time: bool = False
    """Whether the target topic is LogAppendTime too (then a header rewrite is enough)."""
    null_keys: NullKeys = NullKeys.ALLOW
    left_out: tuple[tuple[SourceOffset, SourceOffset], ...] = ()
    """Source offsets [first, end) that are not copied: a loss that somebody agreed to."""
    refused: BatchFault | None = None
    """A record that the target has refused: what comes before it is copied, then this is found."""

    @property
    def most_alone(self) -> int:
        """Bytes that a batch of one record may have."""
        return max(self.max_batch_bytes, self.max_alone_bytes or 0)

    def leaves_out(self, offset: int) -> bool:
        """Whether the record at this source offset is not to be copied."""
        return any(first <= offset < end for first, end in self.left_out)

    def picks_from(self, first: int, end: int) -> bool:
        """Whether some of the records in [first, end) are not to be copied."""
        refused = self.refused is not None and first <= self.refused.offset < end
        return refused or any(start < end and first < stop for start, stop in self.left_out)


class FaultKind(StrEnum):
    """Why a partition cannot go on past an offset."""

    CORRUPT = "corrupt"
    TOO_LARGE = "record-too-large"
    NULL_KEY = "key-missing"
    TIMESTAMP = "timestamp-refused"
    REFUSED = "record-refused"


class BatchFault(NamedTuple):
    """The record (or batch) at which copying of this partition must stop, and why."""

    offset: SourceOffset
    kind: FaultKind
    detail: str


class Dropped(NamedTuple):
    """A record that policy left out."""

    offset: SourceOffset
    kind: FaultKind


class Walked(NamedTuple):
    """What one fetched byte range came to.

    `next_offset` is the position after the last batch walked, skipped ones included (equal to
    the wanted offset when there was no complete batch); `leader_epoch` is that batch's, or -1.
    On a fault, everything before the faulty record is in `batches`.
    """

    batches: list[CopyBatch]
    next_offset: SourceOffset
    leader_epoch: int
    records: int
    aborted_records: int
    control_batches: int
    dropped: tuple[Dropped, ...]
    fault: BatchFault | None
    omitted: int
    """Aborted transactions that the broker's list lacked."""
    undecided: dict[int, int]
    """Producers whose transactional records passed, without a marker yet: the first offset."""
    late: tuple[LateAbort, ...]
