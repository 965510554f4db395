"""Which of the records that were not copied the gap ledger answers for. Pure.

    gap              for every record of its range
    records-dropped  for as many as it tells: where drops are many, what is near becomes one range,
                     and what was copied lies in between

An event may be there twice; a transaction that dropped for two causes tells of ranges that overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.records.events import EventKind
from mirrorfleet.records.incarnations import LossCause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.events import Event

KINDS: Final = frozenset({EventKind.GAP, EventKind.RECORDS_DROPPED})
OF_THE_FORMER: Final = frozenset({LossCause.SOURCE_RECREATED, LossCause.SOURCE_TRUNCATED})
"""Losses that end an incarnation: told with the next one, in offsets of the one before."""


class Told(NamedTuple):
    """An event, and when it came, by the clock that the end of an incarnation is known by."""

    time_ms: int
    event: Event


@dataclass(slots=True)
class _Range:
    """Offsets [first, end) of which `left` may still be answered for; None: all of them."""

    first: int
    end: int
    left: int | None


class Ledger:
    """What is told of one incarnation of a partition."""

    def __init__(self, events: Iterable[Event]) -> None:
        spans = {
            (each.kind, each.first, each.end, each.records)
            for each in events
            if each.first is not None and each.end is not None
        }
        dropped = EventKind.RECORDS_DROPPED
        counted = [(f, e, n) for kind, f, e, n in spans if kind == dropped and n is not None]
        whole = [(f, e, None) for kind, f, e, n in spans if kind != dropped or n is None]
        self._ranges = (_joined(whole), _joined(counted))

    def explains(self, offset: int) -> bool:
        """Whether it answers for a source record that has no copy. Ask once for each."""
        for ranges in self._ranges:
            around = _around(ranges, offset)
            if around is None or around.left == 0:
                continue
            if around.left is not None:
                around.left -= 1
            return True
        return False


def _joined(spans: Iterable[tuple[int, int, int | None]]) -> list[_Range]:
    """Ascending and apart: those that overlap as one, with the number of both."""
    made: list[_Range] = []
    for first, end, records in sorted(spans, key=lambda span: span[:2]):
        last = made[-1] if made else None
        if last is None or first >= last.end:
            made.append(_Range(first, end, records))
            continue
        last.end = max(last.end, end)
        if last.left is not None and records is not None:
            last.left += records
    return made


def _around(ranges: Sequence[_Range], offset: int) -> _Range | None:
    at = bisect_right(ranges, offset, key=lambda one: one.first) - 1
    return ranges[at] if at >= 0 and offset < ranges[at].end else None


def ledger_of(entry: CatalogPartition, told: Iterable[Told], since_ms: int | None) -> Ledger:
    """What was told of it since `since_ms`, when the incarnation before it ended; None: of all.

    An event names no incarnation, and an offset means something else in another one.
    """
    of_entry = (entry.link, entry.source_topic, entry.identity.partition)
    return Ledger(
        event
        for time_ms, event in told
        if (event.link, event.topic, event.partition) == of_entry
        and event.kind in KINDS
        and event.cause not in OF_THE_FORMER
        and (since_ms is None or time_ms >= since_ms)
    )
