"""Runs of batches that go as they are, which is what nearly all of a log is: in one loop.

    [batch] [batch] [batch] [marker] [batch] ...
    └─────── a run ───────┘ └ to be decided by whoever walks

What is done here is what the walk does with a batch of which nothing has to be decided, without
a call for each step (the loop takes half of the time): verified, counted, a view of its payload.
Anything else ends the run, and whoever walks finds out what it is: old formats, markers, holes,
what begins before the wanted offset, what is too large, a wrong CRC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
)
from mirrorfleet.wire.checksum import combine, crc32c
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.copybatch import CopyBatch
from mirrorfleet.wire.merging import MERGE_BELOW

if TYPE_CHECKING:
    from mirrorfleet.core.ids import SourceOffset
    from mirrorfleet.wire.copybatch import Terms

_PLAIN: Final = frozenset(codec | bit for codec in Codec for bit in (0, TRANSACTIONAL))
"""Attributes of what is copied with its header's times: no marker, no time or horizon of a
broker."""


class Passed(NamedTuple):
    """The batches of a run, and the byte after it."""

    batches: list[CopyBatch]
    end: int
    undecided: dict[int, int]
    """Producers with transactional records in it: the first offset."""


def passed(view: memoryview, start: int, end: int, wanted: SourceOffset, terms: Terms) -> Passed:
    """The run at [start, end), of offsets from `wanted` on; maybe none.

    Call it where no transaction is known as aborted, and where records are not looked at
    (`singles.allowed`). A batch of one small record is left, for it may begin a run of such.
    """
    batches: list[CopyBatch] = []
    undecided: dict[int, int] = {}
    most, unpack = terms.max_batch_bytes, HEADER.unpack_from
    while end - start > HEADER_SIZE:
        fields = unpack(view, start)
        base, length, epoch, magic, crc, bits, last, time, latest, who, _, _, count = fields
        after, body = start + LENGTH_OVERHEAD + length, start + HEADER_SIZE
        is_whole = count == last + 1 and base >= wanted and body <= after <= end
        if magic != MAGIC or not is_whole or bits not in _PLAIN or after - start > most:
            break
        if count < 1 or (count == 1 and after - start < LENGTH_OVERHEAD + MERGE_BELOW):
            break
        payload = view[body:after]
        payload_crc = crc32c(payload)
        if combine(crc32c(view[start + CRC_START : body]), payload_crc, after - body) != crc:
            break
        if bits >= TRANSACTIONAL:
            undecided.setdefault(who, base)
        start, wanted = after, base + count
        batches.append(
            CopyBatch(
                payload=payload,
                payload_crc=payload_crc,
                attributes=bits & CODEC_MASK,
                count=count,
                base_timestamp=time,
                max_timestamp=latest,
                first=base,
                next_offset=wanted,
                leader_epoch=epoch,
            )
        )
    return Passed(batches, start, undecided)
