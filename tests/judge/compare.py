"""Comparing a source log with a target log, record by record.

Pure. The source is the truth: the target must be its dense indices 0, 1, 2, ..., n-1 in this order.

        source index   0  1  2  3  4  5              offsets may have holes on both sides
        target        [0  1][3  3  9'][5]            9' = a record that the source does not have
                       prefix  middle  suffix

Equal logs cost one comparison of bytes. Else the equal prefix and suffix are set aside, every
target record of the middle is matched with a source record of the same digest, and what is left
over is named: `Kind`. Equal records may occur many times in a source, so a match takes one
occurrence: the nearest one after the last match.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tests.judge.log import DIGEST_SIZE, Log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK = 4096
"""Records compared at once while looking for the end of the equal prefix."""

NEIGHBOURS = 2
"""Offsets shown on each side of an anomaly."""


class Kind(StrEnum):
    """What can be wrong with a copy. UNSEEN is a loss that time may still mend: see `verdict`."""

    LOST = "lost"
    REPEATED = "repeated"
    OUT_OF_ORDER = "out of order"
    CHANGED = "changed"
    EXTRA = "extra"
    UNSEEN = "not seen at the end"


class OffsetRange(NamedTuple):
    """Offsets from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One run of neighbouring records with the same thing wrong.

    `source`: where they are in the source (None: nowhere). `target`: where they are in the target.
    `difference`: which fields changed, where the records were read again to tell.
    """

    kind: Kind
    count: int
    source: OffsetRange | None
    target: OffsetRange | None
    excerpt: str
    difference: str = ""


class _Event(NamedTuple):
    kind: Kind
    source: int | None  # dense index
    target: int | None


def compare(source: Log, target: Log) -> list[Anomaly]:
    """Name everything in which `target` is not the copy of `source`; empty when it is exact."""
    if source.digests == target.digests:
        return []
    prefix = _common_prefix(source, target)
    suffix = _common_suffix(source, target, prefix)
    matching = _Matching(source, target, prefix, suffix)
    matching.match_equal()
    matching.find_repeats_of_the_ends()
    matching.pair_changed()
    return [_anomaly(run, source, target, matching) for run in _runs(matching.events())]


def _common_prefix(source: Log, target: Log) -> int:
    most = min(len(source), len(target))
    done = 0
    while done < most:
        step = min(CHUNK, most - done)
        low, high = done * DIGEST_SIZE, (done + step) * DIGEST_SIZE
        if source.digests[low:high] != target.digests[low:high]:
            break
        done += step
    while done < most and source.digest(done) == target.digest(done):
        done += 1
    return done


def _common_suffix(source: Log, target: Log, prefix: int) -> int:
    most = min(len(source), len(target)) - prefix
    done = 0
    while done < most and source.digest(len(source) - 1 - done) == target.digest(
        len(target) - 1 - done
    ):
        done += 1
    return done


class _Matching:
    """Which source index each target index of the middle is a copy of."""

    def __init__(self, source: Log, target: Log, prefix: int, suffix: int) -> None:
        self.source, self.target = source, target
        self.prefix = prefix
        self.source_end, self.target_end = len(source) - suffix, len(target) - suffix
        self.copy_of: dict[int, int] = {}  # target index -> source index
        self.place_of: dict[int, int] = {}  # source index -> target index
        self.repeats: dict[int, int] = {}
        self.strangers: list[int] = []  # target indices of no source record
        self.changed: dict[int, int] = {}  # target index -> source index

    def match_equal(self) -> None:
        """Give each target record its own occurrence in the source, nearest first."""
        unused: dict[bytes, list[int]] = {}
        for index in range(self.prefix, self.source_end):
            unused.setdefault(self.source.digest(index), []).append(index)
        seen: dict[bytes, int] = {}
        last = self.prefix - 1
        for index in range(self.prefix, self.target_end):
            digest = self.target.digest(index)
            candidates = unused.get(digest)
            if candidates:
                after = bisect_right(candidates, last)
                last = candidates.pop(after if after < len(candidates) else 0)
                self.copy_of[index], self.place_of[last] = last, index
                seen[digest] = last
            elif digest in seen:
                self.repeats[index] = seen[digest]
            else:
                self.strangers.append(index)

    def find_repeats_of_the_ends(self) -> None:
        """Find the strangers that copy a record of the equal prefix or suffix once more."""
        wanted = {self.target.digest(index) for index in self.strangers}
        ends = (*range(self.prefix), *range(self.source_end, len(self.source))) if wanted else ()
        found = {d: index for index in ends if (d := self.source.digest(index)) in wanted}
        for index in self.strangers:
            if (at := found.get(self.target.digest(index))) is not None:
                self.repeats[index] = at
        self.strangers = [index for index in self.strangers if index not in self.repeats]

    def pair_changed(self) -> None:
        """Take a stranger that stands just where a source record is missing as that record."""
        strangers = set(self.strangers)
        expected = self.prefix
        for index in range(self.prefix, self.target_end):
            if index in self.copy_of:
                expected = self.copy_of[index] + 1
            elif index in strangers and self._is_missing(expected):
                self.changed[index], self.place_of[expected] = expected, index
                expected += 1
        self.strangers = [index for index in self.strangers if index not in self.changed]

    def _is_missing(self, index: int) -> bool:
        return self.prefix <= index < self.source_end and index not in self.place_of

    def missing(self) -> list[int]:
        """Source indices that the target has nowhere."""
        return [i for i in range(self.prefix, self.source_end) if i not in self.place_of]

    def target_place(self, index: int) -> int | None:
        """Where the target has a source index, if anywhere."""
        if index < self.prefix:
            return index
        if index >= self.source_end:
            return index - self.source_end + self.target_end
        return self.place_of.get(index)

    def events(self) -> list[_Event]:
        """List all that is wrong, in source order and then in target order."""
        missing = self.missing()
        tail = _tail_start(missing, len(self.source))
        found = [
            _Event(Kind.UNSEEN if index >= tail else Kind.LOST, index, None) for index in missing
        ]
        found += [_Event(Kind.CHANGED, at, index) for index, at in sorted(self.changed.items())]
        found += [_Event(Kind.REPEATED, at, index) for index, at in sorted(self.repeats.items())]
        found += [_Event(Kind.EXTRA, None, index) for index in self.strangers]
        misplaced = _outside_longest_increase(sorted(self.copy_of.items()))
        found += [_Event(Kind.OUT_OF_ORDER, at, index) for index, at in misplaced]
        return found


def _tail_start(missing: list[int], length: int) -> int:
    """First index of the run of missing records that reaches the end of the source."""
    start = length
    for index in reversed(missing):
        if index != start - 1:
            break
        start = index
    return start


def _outside_longest_increase(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs (target, source) to be moved, as few as possible, for the sources to increase.

    Patience sorting: `tops[k]` is the smallest source that ends an increase of k + 1.
    """
    tops: list[int] = []
    top_at: list[int] = []
    before: list[int] = []
    for position, (_, at) in enumerate(pairs):
        pile = bisect_left(tops, at)
        before.append(top_at[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [at]
        top_at[pile : pile + 1] = [position]
    kept: set[int] = set()
    position = top_at[-1] if top_at else -1
    while position >= 0:
        kept.add(position)
        position = before[position]
    return [pair for position, pair in enumerate(pairs) if position not in kept]


def _runs(events: Iterable[_Event]) -> Iterator[list[_Event]]:
    run: list[_Event] = []
    for event in events:
        if run and not _follows(run[-1], event):
            yield run
            run = []
        run.append(event)
    if run:
        yield run


def _follows(one: _Event, other: _Event) -> bool:
    return (
        one.kind is other.kind
        and other.source == (None if one.source is None else one.source + 1)
        and other.target == (None if one.target is None else one.target + 1)
    )


def _anomaly(run: list[_Event], source: Log, target: Log, matching: _Matching) -> Anomaly:
    first, last = run[0], run[-1]
    lines = [_window("source", source, first.source, last.source)]
    if first.source is not None and first.target is None:
        end = first.source + len(run) - 1
        lines.append(_gap(target, matching, first.source, end))
    else:
        lines.append(_window("target", target, first.target, last.target))
    if first.kind is Kind.REPEATED and first.source is not None:
        place = matching.target_place(first.source)
        lines.append(f"first copy at target {'?' if place is None else target.offsets[place]}")
    return Anomaly(
        kind=first.kind,
        count=len(run),
        source=_offsets(source, first.source, last.source),
        target=_offsets(target, first.target, last.target),
        excerpt="\n".join(line for line in lines if line),
    )


def _offsets(log: Log, first: int | None, last: int | None) -> OffsetRange | None:
    if first is None or last is None:
        return None
    return OffsetRange(log.offsets[first], log.offsets[last])


def _window(side: str, log: Log, first: int | None, last: int | None) -> str:
    """Draw offsets as `source 4 5 [6..8] 9 10`."""
    if first is None or last is None:
        return ""
    left = [str(o) for o in log.offsets[max(first - NEIGHBOURS, 0) : first]]
    right = [str(o) for o in log.offsets[last + 1 : last + 1 + NEIGHBOURS]]
    inside = f"[{OffsetRange(log.offsets[first], log.offsets[last])}]"
    return " ".join((side, *left, inside, *right))


def _gap(target: Log, matching: _Matching, first: int, last: int) -> str:
    """Draw the place in the target at which source indices are missing, as `target 4 5 [] 6 7`."""
    around = (
        *range(max(first - NEIGHBOURS, 0), first),
        *range(last + 1, last + 1 + NEIGHBOURS),
    )
    words: list[str] = ["target"]
    drawn = False
    for index in around:
        if index > last and not drawn:
            words.append("[]")
            drawn = True
        place = matching.target_place(index)
        if index < len(matching.source) and place is not None:
            words.append(str(target.offsets[place]))
    if not drawn:
        words.append("[]")
    return " ".join(words)
