"""Runs of batches of one record, as producers without linger write them: many in, one batch out.

    source   [61 bytes, record] [61 bytes, record] [61 bytes, record] ...
    target   [61 bytes, record, record, record, ...]

Header, append and transaction check cost more than such a record, on either side. What is done
here is what `merging.merged` does, without an object a batch, and only where nothing is to decide:
anything that is not plain (compression, another clock, a control batch, deltas, a wrong CRC) ends
the run, and whoever walks finds out what it is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
)
from mirrorfleet.wire.checksum import crc32c
from mirrorfleet.wire.copybatch import CopyBatch, NullKeys, Terms
from mirrorfleet.wire.merging import MERGE_BELOW, MERGE_UP_TO
from mirrorfleet.wire.varint import write_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_Single = tuple[int, int, memoryview, int, int]
"""Source offset, time, the record after its deltas, leader epoch, byte after the batch."""

_HEADER: Final = struct.Struct(">qiibIhiqqq6xi")
"""A batch's header without the producer's epoch and sequence, whose place the target's take."""
_LEAST: Final = HEADER_SIZE - LENGTH_OVERHEAD + 7
"""What the length field says of a batch with a record without key, value and headers."""
_TWO_BYTES: Final = 0x80
_FAR: Final = 1 << 40
"""Milliseconds from the first record's time, either way: nobody's clock."""


class Run(NamedTuple):
    """A batch of all records of the run, and the byte after the run."""

    batch: CopyBatch
    end: int
    undecided: dict[int, int]
    """Producers with transactional records in it: the first offset."""


def allowed(terms: Terms) -> bool:
    """Whether the target takes records as they come, none of them looked at."""
    picks = bool(terms.left_out or terms.refused)
    return not picks and terms.null_keys is NullKeys.ALLOW


def gathered(
    view: memoryview, start: int, end: int, wanted: SourceOffset, terms: Terms
) -> Run | None:
    """The run of one-record batches at [start, end), verified; None of fewer than two."""
    room = min(MERGE_UP_TO, terms.max_batch_bytes) - HEADER_SIZE
    parts, undecided = list[bytes | memoryview](), dict[int, int]()
    holes: list[tuple[SourceOffset, int]] = []
    position, expected, count = start, wanted, 0
    first, epoch, base_time, latest = wanted, -1, 0, 0
    for base, time, tail, of_epoch, after in _plain(view, start, end, undecided):
        delta = time - base_time if count else 0
        if base < expected or not -_FAR < delta < _FAR:
            break
        deltas = write_varint(delta) + write_varint(count)
        head = write_varint(1 + len(deltas) + len(tail)) + b"\0" + deltas
        room -= len(head) + len(tail)
        if room < 0:
            break
        if not count:
            first, base_time, latest = SourceOffset(base), time, time
        elif base != expected:
            holes.append((expected, base - expected))
        parts += (head, tail)
        latest = max(latest, time)
        position, epoch, expected = after, of_epoch, SourceOffset(base + 1)
        count += 1
    if count < 2:
        return None
    batch = CopyBatch(
        payload=(payload := b"".join(parts)),
        payload_crc=crc32c(payload),
        attributes=0,
        count=count,
        base_timestamp=base_time,
        max_timestamp=latest,
        first=first,
        next_offset=expected,
        holes=tuple(holes),
        leader_epoch=epoch,
    )
    return Run(batch, position, undecided)


def _plain(view: memoryview, start: int, end: int, undecided: dict[int, int]) -> Iterator[_Single]:
    """The plain batches of one record from byte `start` on, up to the first that is not one.

    Notes the producers of transactional ones in `undecided`, of what the caller leaves for the next
    run as well: there it is noted again.
    """
    position, unpack = start, _HEADER.unpack_from
    while end - position > HEADER_SIZE:
        fields = unpack(view, position)
        base, length, epoch, magic, crc, bits, last, time, latest, who, count = fields
        after = position + LENGTH_OVERHEAD + length
        lone = count == 1 and not last and magic == MAGIC and time == latest
        if not lone or bits & ~TRANSACTIONAL or not _LEAST <= length < MERGE_BELOW or after > end:
            return
        at = position + HEADER_SIZE
        low = view[at]
        if low < _TWO_BYTES:
            size, at = low, at + 1
        else:  # two bytes hold any size of a batch that is small enough
            size, at = view[at + 1] << 7 | low & 0x7F, at + 2
        if size != (after - at) << 1 or view[at] or view[at + 1] or view[at + 2]:
            return  # its attributes, timestamp delta and offset delta are 0 where it is alone
        if crc32c(view[position + CRC_START : after]) != crc:
            return
        if bits:
            undecided.setdefault(who, base)
        yield base, time, view[at + 3 : after], epoch, after
        position = after
