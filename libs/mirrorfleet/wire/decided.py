"""What came of the transactions in a fetch answer, for who reads records and does not copy them.

    [A: 4..5] [A: abort 6] [B: 7] [A: 8] | marker of A is in the next answer
     aborted, whatever the list says      7 and 8 are asked for again, from 7 or 8 on

A broker may leave an aborted transaction out of its list (`wire.aborted`), so a marker is believed
more, and a batch is given out when the marker of its transaction came with it. Where that cannot
be, because a transaction is longer than an answer, the list is all there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.wire.aborted import AbortedFilter, Marker, marker_of
from mirrorfleet.wire.batch import BatchHeader, verify, walk
from mirrorfleet.wire.copybatch import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.wire.batch import Buffer


class Decided(NamedTuple):
    """A batch, and how its transaction ended. `marker` is NONE unless it is a control batch."""

    header: BatchHeader
    marker: Marker
    aborted: bool


def decided(
    buffer: Buffer, start: int, end: int, aborted: Sequence[AbortedTransaction], asked: int
) -> list[Decided]:
    """The batches of [start, end) of an answer from the offset `asked` on, in order.

    Behind the last one are those to be asked for again, from its `next_offset` on.

    Raises: CorruptBatchError.
    """
    view = memoryview(buffer)
    markers: list[tuple[BatchHeader, Marker]] = []
    for header in walk(view, start, end):
        verify(view, header)
        markers.append((header, marker_of(view, header) if header.is_control else Marker.NONE))
    found, undecided = _judged(markers, aborted)
    sure = found[:undecided]
    return sure if any(one.header.next_offset > asked for one in sure) else found


def _judged(
    markers: Sequence[tuple[BatchHeader, Marker]], aborted: Sequence[AbortedTransaction]
) -> tuple[list[Decided], int]:
    """All of them, and how many come before the first one whose transaction has no end here."""
    known = list(aborted)
    while True:
        covered, missed = AbortedFilter(known), list[AbortedTransaction]()
        found: list[Decided] = []
        open_since: dict[int, int] = {}  # by producer: where in `found` what is not covered begins
        for header, marker in markers:
            found.append(Decided(header, marker, covered.covers(header)))
            who = header.producer_id
            if not header.is_control:
                if header.is_transactional and not found[-1].aborted:
                    open_since.setdefault(who, len(found) - 1)
                continue
            if marker is Marker.OTHER:
                continue
            covered.end(who)
            first = open_since.pop(who, None)
            if marker is Marker.ABORT and first is not None:
                missed.append(AbortedTransaction(who, found[first].header.base_offset))
        if not missed:
            return found, min(open_since.values(), default=len(found))
        known += missed  # and once more: the list was not complete
