"""How long copies stood still: from the moments at which each side showed more of a partition.

Pure. A stall begins when the source showed something that the target did not have yet, and ends
when the target showed more; what the source itself held back is no stall of the copier.

    source shows      v     v   v       v      v
    target shows        c                   c     c
                            |---- stall ----|
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.judge.reading import At


class Span(NamedTuple):
    """When a fault, or its absence, was watched; in ms since the epoch."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Line:
    """One partition: when its source and its copy showed more, each in order, in ms."""

    copy: At
    source_ms: Sequence[int]
    copy_ms: Sequence[int]


class Stall(NamedTuple):
    """The longest stall of a copy that touches a span."""

    copy: At
    seconds: float
    since_ms: int


def longest(line: Line, span: Span) -> Stall:
    """The longest stall of one partition; of 0 s when it never had anything to wait for.

    A stall that lasts beyond the span counts to its end, and one that still lasts after the last
    commit counts to the end of the span.
    """
    found = Stall(line.copy, 0.0, span.begin_ms)
    for after, until in pairwise([0, *line.copy_ms, max([span.end_ms, *line.copy_ms[-1:]])]):
        at = bisect_right(line.source_ms, after)
        if at == len(line.source_ms) or line.source_ms[at] >= min(until, span.end_ms):
            continue
        since = line.source_ms[at]
        if until <= span.begin_ms:
            continue
        if (until - since) / 1000 > found.seconds:
            found = Stall(line.copy, (until - since) / 1000, since)
    return found


def stalls(lines: Iterable[Line], span: Span) -> list[Stall]:
    """The longest stall of each partition in a span, the longest first."""
    return sorted((longest(line, span) for line in lines), key=lambda stall: -stall.seconds)


def within(line: Line, span: Span) -> Line:
    """What is a span's own: without a stall that began before it, and cut off at its end."""
    begin_ms, copies = span.begin_ms, line.copy_ms
    coming = bisect_right(copies, begin_ms)
    waiting = bisect_right(line.source_ms, copies[coming - 1] if coming else 0)
    if any(ms < begin_ms for ms in line.source_ms[waiting : waiting + 1]):
        begin_ms = next(iter(copies[coming:]), span.end_ms)
    shown = [ms for ms in line.source_ms if begin_ms <= ms <= span.end_ms]
    return Line(line.copy, shown, [ms for ms in copies if ms <= span.end_ms])


def silent(lines: Iterable[Line], span: Span) -> list[At]:
    """Copies whose source showed nothing in a span: that they stood for 0 s proves nothing."""
    return [
        line.copy
        for line in lines
        if not any(span.begin_ms <= ms <= span.end_ms for ms in line.source_ms)
    ]


def told(what: str, found: Sequence[Stall], limit_s: float) -> str:
    """One line for a person: how many, the longest, the usual, and what is asked."""
    if not found:
        return f"{what}: no partition was watched"
    worst = found[0]
    return (
        f"{what}: longest stall {worst.seconds:.2f} s ({worst.copy.topic}-{worst.copy.partition}),"
        f" median {median(one.seconds for one in found):.2f} s"
        f" of {len(found)} partitions, limit {limit_s:g} s"
    )
