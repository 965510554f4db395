"""Runs of batches of one record, as producers without linger write them: many in, one batch out.

    source   [61 bytes, record] [61 bytes, record] [61 bytes, record] ...
    target   [61 bytes, record, record, record, ...]

Header, append and transaction check cost more than such a record, on either side. What is done
here is what `merging.merged` does, without an object a batch, and only where nothing is to decide:
anything else (another codec, another clock, a control batch, deltas, a wrong CRC) ends the run, and
whoever walks finds out what it is.
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
from mirrorfleet.wire.codecs import WRONG, Codec, compress, inflater
from mirrorfleet.wire.copybatch import CopyBatch, NullKeys, Terms
from mirrorfleet.wire.merging import MERGE_BELOW, MERGE_UP_TO, PACK_INFLATED, inflated_within
from mirrorfleet.wire.varint import write_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_Single = tuple[int, int, memoryview | bytes | bytearray, int, int]
"""Source offset, time, the record after its deltas, leader epoch, byte after the batch."""

_HEADER: Final = struct.Struct(">qiibIhiqqq6xi")
"""A batch's header without the producer's epoch and sequence, whose place the target's take."""
_SHORTEST: Final = 7
"""Bytes of such a record, its length included."""
_LONG: Final = 0x80
"""Bytes from here on say that another one follows; three hold any size of what is opened here."""
_LEAST: Final = HEADER_SIZE - LENGTH_OVERHEAD + _SHORTEST
"""What the length field says of a batch with a record without key, value and headers."""
_FAR: Final = 1 << 40
"""Milliseconds from the first record's time, either way: nobody's clock."""
OPENED_LEAST: Final = 1 << 20
OPENED_SHARE: Final = 4
"""So many times its own bytes an answer is opened, uncompressed, and `OPENED_LEAST`: what is larger
when it is opened costs more than it saves, and all of an answer is walked in one go."""
OPENED_IN_VAIN: Final = 16 * 1024
"""What an attempt counts that found no run: it may have opened a batch."""


class Run(NamedTuple):
    """A batch of all records of the run, and the byte after the run."""

    batch: CopyBatch
    end: int
    opened: int
    """Bytes that were opened for it, uncompressed; 0 of plain ones."""
    undecided: dict[int, int]
    """Producers with transactional records in it: the first offset."""


class _Begun(NamedTuple):
    codec: Codec
    offset: SourceOffset
    time: int
    epoch: int


def allowed(terms: Terms) -> bool:
    """Whether the target takes records as they come, none of them looked at."""
    picks = bool(terms.left_out or terms.refused)
    return not picks and terms.null_keys is NullKeys.ALLOW


def gathered(
    view: memoryview, start: int, end: int, wanted: SourceOffset, terms: Terms, opens: int
) -> Run | None:
    """The run of one-record batches at [start, end), verified; None of fewer than two, and of
    compressed ones when nothing may be opened any more.
    """
    begun = _begun(view, start, end)
    if begun is None or begun.offset < wanted or (begun.codec and opens <= 0):
        return None
    codec, first, base_time, _ = begun
    room = _room(codec, min(MERGE_UP_TO, terms.max_batch_bytes))
    parts, undecided = list[bytes | bytearray | memoryview](), dict[int, int]()
    holes: list[tuple[SourceOffset, int]] = []
    position, expected, count, epoch, latest = start, first, 0, begun.epoch, base_time
    for base, time, tail, of_epoch, after in _singles(view, start, end, codec, undecided):
        delta = time - base_time
        if base < expected or of_epoch != epoch or not -_FAR < delta < _FAR:
            break  # of another epoch: what is a batch has one
        deltas = write_varint(delta) + write_varint(count)
        head = write_varint(1 + len(deltas) + len(tail)) + b"\0" + deltas
        room -= len(head) + len(tail)
        if room < 0:
            break
        if base != expected:
            holes.append((expected, base - expected))
        parts += (head, tail)
        latest = max(latest, time)
        position, expected, count = after, SourceOffset(base + 1), count + 1
    if count < 2:
        return None
    batch = CopyBatch(
        payload=(payload := compress(codec, b"".join(parts))),
        payload_crc=crc32c(payload),
        attributes=int(codec),
        count=count,
        base_timestamp=base_time,
        max_timestamp=latest,
        first=first,
        next_offset=expected,
        holes=tuple(holes),
        leader_epoch=epoch,
    )
    return Run(batch, position, sum(map(len, parts)) if codec else 0, undecided)


def _room(codec: Codec, most: int) -> int:
    """Bytes of records that make a batch of `most` at most."""
    return inflated_within(most) if codec else most - HEADER_SIZE


def _begun(view: memoryview, start: int, end: int) -> _Begun | None:
    """What the first of a run says; None where the next one has another codec, or there is none."""
    after = start
    if end - start > HEADER_SIZE:
        base, length, epoch, _, _, bits, _, time, *_ = _HEADER.unpack_from(view, start)
        after += LENGTH_OVERHEAD + length
    if not _LEAST <= after - start - LENGTH_OVERHEAD < MERGE_BELOW or end - after < HEADER_SIZE:
        return None
    codec, following = bits & ~TRANSACTIONAL, _HEADER.unpack_from(view, after)[5]
    is_one = codec == following & ~TRANSACTIONAL and 0 <= codec <= Codec.ZSTD
    return _Begun(Codec(codec), SourceOffset(base), time, epoch) if is_one else None


def _singles(
    view: memoryview, start: int, end: int, codec: Codec, undecided: dict[int, int]
) -> Iterator[_Single]:
    """The batches of one record from byte `start` on, up to the first that is not one.

    Notes the producers of transactional ones in `undecided`, of what the caller leaves for the next
    run as well: there it is noted again.
    """
    position, unpack, inflate = start, _HEADER.unpack_from, inflater(codec)
    while end - position > HEADER_SIZE:
        fields = unpack(view, position)
        base, length, epoch, magic, crc, bits, last, time, latest, who, count = fields
        after = position + LENGTH_OVERHEAD + length
        lone = count == 1 and not last and magic == MAGIC and time == latest
        is_ours = lone and bits & ~TRANSACTIONAL == codec and _LEAST <= length < MERGE_BELOW
        if not is_ours or after > end or crc32c(view[position + CRC_START : after]) != crc:
            return
        body: memoryview | bytes | bytearray = view
        at, stop = position + HEADER_SIZE, after
        if codec:
            try:
                body = inflate(view[at:after], PACK_INFLATED)
            except WRONG:
                return
            at, stop = 0, len(body)
            if not _SHORTEST <= stop <= PACK_INFLATED:
                return
        low = body[at]
        if low < _LONG:
            size, at = low, at + 1
        elif (high := body[at + 1]) < _LONG:
            size, at = high << 7 | low & 0x7F, at + 2
        else:
            size, at = body[at + 2] << 14 | (high & 0x7F) << 7 | low & 0x7F, at + 3
        if size != (stop - at) << 1 or body[at] or body[at + 1] or body[at + 2]:
            return  # its attributes, timestamp delta and offset delta are 0 where it is alone
        if bits & TRANSACTIONAL:
            undecided.setdefault(who, base)
        yield base, time, body[at + 3 : stop], epoch, after
        position = after
