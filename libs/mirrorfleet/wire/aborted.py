"""Which batches of a fetch answer belong to aborted transactions (read_committed).

The broker lists the transactions (producer id, first offset) that were aborted in the fetched
range; the list is made for its answer, also from the middle of a transaction, so a filter
lives for one answer only. Algorithm: the Java consumer's CompletedFetch, with two differences:
one is named at `end`, the other is that an abort marker is believed more than the list.

    follower appends in one go    [A: 601..606 abort 607] [A: 608..610 abort 611] [B: 612 ...
    its index, of the first one   601..607, "all below 612 is decided"
    it leads, is asked for 608    the first entry says that nothing is missing below 612: [] is told

(ProducerStateManager.lastStableOffset looks at other producers only, TransactionIndex
.collectAbortedTxns stops at the first entry that reaches the end of what was read; seen in 4.3.0.)
Whoever trusts the list alone hands out 608..610. The walk of an answer finds an abort of what it
passed; what passed in an answer before is for the partition to undo (`CopyPartition.learn`), and
what may have to be undone is not sent for a while (`copying/withheld.py`).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.batch import HEADER_SIZE
from mirrorfleet.wire.codecs import decompress
from mirrorfleet.wire.framing import framed_records, key_and_rest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.wire.batch import BatchHeader
    from mirrorfleet.wire.copybatch import AbortedTransaction

_MARKER_KEY: Final = struct.Struct(">hh")


class Marker(IntEnum):
    """The type of a control record (ControlRecordType); `NONE` is an empty control batch."""

    NONE = -1
    ABORT = 0
    COMMIT = 1
    OTHER = 2


class AbortedFilter:
    """Follows the transactions of one fetch answer; every batch must be shown, in order."""

    __slots__ = ("_open", "_pending")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether the batch was written in a transaction that was aborted."""
        while self._pending and self._pending[-1].first_offset <= header.last_offset:
            self._open.add(self._pending.pop().producer_id)
        return header.is_transactional and header.producer_id in self._open

    def end(self, producer_id: int) -> None:
        """A marker of this producer: its transaction is over.

        Any end marker ends it, an *empty* one too (the cleaner has taken the record out and kept
        the batch). The Java consumer sees no abort in an empty one and would drop the producer's
        next committed batches of the same answer.
        """
        self._open.discard(producer_id)


def marker_of(view: memoryview, header: BatchHeader) -> Marker:
    """What a control batch says. Raises: CorruptBatchError when it holds no control record."""
    if header.count == 0:
        return Marker.NONE
    body = decompress(header.codec, view[header.start + HEADER_SIZE : header.end])
    _, _, tail = next(framed_records(body, header.count))
    key, _ = key_and_rest(tail)
    if key is None or len(key) < _MARKER_KEY.size:
        raise CorruptBatchError("control record without type", offset=header.base_offset)
    _, kind = _MARKER_KEY.unpack_from(key)
    return Marker(kind) if kind in (Marker.ABORT, Marker.COMMIT) else Marker.OTHER
