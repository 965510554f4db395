"""Whether a copy has what its source has: record by record, by the offset map. Pure.

    source  o: the map says where its copy is, e ─┐     content, time and key are compared where a
    target  t: the next one that is stored  ──────┘     record is at its place, t = e

Both sides come in the order of their offsets, so what is in its place is in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.offsets.ledger import Ledger

if TYPE_CHECKING:
    from mirrorfleet.offsets.copies import Copies
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.wire.records import Record

EXAMPLES: Final = 5
"""Offsets that are told of each kind of difference."""


class Step(Enum):
    """Of which side the next record is wanted."""

    BOTH = auto()
    SOURCE = auto()
    TARGET = auto()


@dataclass(slots=True)
class Differences:
    """How many there are of a kind, and the first offsets, of the source, or of the target where it
    alone has a record.
    """

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, offset: int) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append(offset)

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.first) else ""
        return f"{', '.join(map(str, self.first))}{more}"


class Verified:
    """What was found of one partition so far. `equal` records are in their places."""

    def __init__(
        self,
        place: Callable[[SourceOffset], int | None],
        ledger: Ledger | None = None,
        *,
        is_retimed: bool,
    ) -> None:
        """`place` says where the copy of a record is, None of one that the map has no copy of, for
        which the `ledger` may answer. `is_retimed`: the target's broker gives its own times.
        """
        self._place = place
        self._ledger = ledger or Ledger(())
        self._is_retimed = is_retimed
        self.equal = 0
        self.missing, self.changed, self.extra = Differences(), Differences(), Differences()
        self.explained = Differences()

    @property
    def is_intact(self) -> bool:
        """Whether both sides are the same, but for what the gap ledger tells of."""
        return not (self.missing.count or self.changed.count or self.extra.count)

    def step(self, source: Record | None, target: Record | None) -> Step:
        """Compare what comes next on both sides; None where one has ended."""
        if source is None:
            if target is not None:
                self.extra.add(target.offset)
            return Step.TARGET
        place = self._place(SourceOffset(source.offset))
        if place is None or target is None or target.offset > place:
            told = place is None and self._ledger.explains(source.offset)
            (self.explained if told else self.missing).add(source.offset)
            return Step.SOURCE
        if target.offset < place:
            self.extra.add(target.offset)
            return Step.TARGET
        if self._is_same(source, target):
            self.equal += 1
        else:
            self.changed.add(source.offset)
        return Step.BOTH

    def _is_same(self, source: Record, target: Record) -> bool:
        if not self._is_retimed and source.timestamp != target.timestamp:
            return False
        return (source.key, source.value, source.headers) == (
            target.key,
            target.value,
            target.headers,
        )


def place_in(copies: Copies, entry: CatalogPartition) -> Callable[[SourceOffset], int | None]:
    """Where the copy of a source record is, by a map that translates both ways: of one that was not
    copied it says where the next one is, and from there it leads to another.
    """
    line = copies.line(entry)

    def place(offset: SourceOffset) -> int | None:
        there = None if line is None else line.to_target(offset)
        back = None if line is None or there is None else line.to_source(there.offset)
        return there.offset if there is not None and back and back.offset == offset else None

    return place


@dataclass(frozen=True, slots=True)
class Span:
    """What is compared: source offsets [first, end) and the target's [target_first, target_end)."""

    first: int
    end: int
    target_first: int
    target_end: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What can be read: the source's log start and last stable offset, the target's log start."""

    source_start: int
    source_end: int
    target_start: int


def span_of(
    copies: Copies, entry: CatalogPartition, bounds: Bounds, first: int | None, most: int
) -> Span | None:
    """Up to `most` offsets of the source from `first` on, or the last ones, that are copied and on
    both sides still; None where there are none.
    """
    begin = copies.to_target(entry.source, 0)
    low = _low(copies, entry, bounds)
    if begin is None or low is None:
        return None
    end = min(bounds.source_end, begin.copied_to)
    low = max(low, end - most if first is None else first)
    high = min(end, low + most)
    from_there, to_there = copies.to_target(entry.source, low), copies.to_target(entry.source, high)
    if low >= high or from_there is None or to_there is None:
        return None
    return Span(low, high, max(from_there.offset, bounds.target_start), to_there.offset)


def _low(copies: Copies, entry: CatalogPartition, bounds: Bounds) -> int | None:
    """The first source offset whose copy may be there: what was before was never copied, or is not
    kept any more.
    """
    begin = copies.to_target(entry.source, 0)
    if begin is None:
        return None
    back = copies.to_source(entry.target, max(begin.offset, bounds.target_start))
    return None if back is None else max(back.offset, bounds.source_start)
