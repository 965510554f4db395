"""What must be done with a fetched batch: one verdict, from its header alone.

Verdicts are tried from top to bottom.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from mirrorfleet.wire.batch import CONTROL, LOG_APPEND_TIME, MAGIC
from mirrorfleet.wire.copybatch import NullKeys

if TYPE_CHECKING:
    from mirrorfleet.core.ids import SourceOffset
    from mirrorfleet.wire.batch import BatchHeader
    from mirrorfleet.wire.copybatch import Terms


class Verdict(StrEnum):
    """One way of treating a batch; the value is its metric label."""

    LEGACY = "legacy"
    """Magic 0 or 1: its records go into a new batch (Produce takes magic 2 only)."""
    CONTROL = "control"
    """A marker: never copied, clients may not write one."""
    BEHIND = "behind"
    """Ends before the wanted offset: already copied."""
    ABORTED = "aborted"
    """Of an aborted transaction: no reader of committed data may see it."""
    EMPTY = "empty"
    """No records: the cleaner took them out and kept the header."""
    TRIM = "trim"
    """Begins before the wanted offset: those records are already copied."""
    HOLES = "holes"
    """Compaction took records out; the target demands lastOffsetDelta + 1 == count."""
    APPEND_TIME = "append-time"
    """Timestamps are the broker's; the target would show the producer's own instead."""
    LEFT_OUT = "left-out"
    """Has records that are not to be copied: somebody decided so, or the target refused one."""
    INSPECT = "inspect"
    """The target is compacted and policy wants to see every key."""
    OVERSIZE = "oversize"
    """Larger than the target takes."""
    PASS = "pass"
    """As it is: the payload is not looked at."""


def classify(
    header: BatchHeader, wanted: SourceOffset, terms: Terms, *, aborted: bool = False
) -> Verdict:
    """The verdict on a verified batch; `aborted` is what `AbortedFilter.covers` said of it."""
    if header.magic < MAGIC:
        return Verdict.BEHIND if header.base_offset < wanted else Verdict.LEGACY
    if aborted or header.attributes & CONTROL:
        return Verdict.CONTROL if header.attributes & CONTROL else Verdict.ABORTED
    dense = header.count == header.last_offset_delta + 1
    if dense and header.base_offset >= wanted:
        return _of_whole(header, terms)
    if header.next_offset <= wanted:
        return Verdict.BEHIND
    if header.count == 0:
        return Verdict.EMPTY
    return Verdict.HOLES if header.base_offset >= wanted else Verdict.TRIM


def _of_whole(header: BatchHeader, terms: Terms) -> Verdict:
    """The verdict on a batch of which every record is wanted and none is missing."""
    if header.attributes & LOG_APPEND_TIME and not terms.target_append_time:
        return Verdict.APPEND_TIME
    picks = terms.left_out or terms.refused
    if picks and terms.picks_from(header.base_offset, header.next_offset):
        return Verdict.LEFT_OUT
    if terms.null_keys is not NullKeys.ALLOW:
        return Verdict.INSPECT
    if header.end - header.start > terms.max_batch_bytes:
        return Verdict.OVERSIZE
    return Verdict.PASS
