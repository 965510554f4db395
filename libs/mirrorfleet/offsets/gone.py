"""What a target log lost of a copy, by the maps of all incarnations that wrote to it. Sans-IO.

    target   0 ......... kept ......... t1 .........     t1: the first record of a later incarnation
    map      [     0      |     gone    )  written over
                                        [ 1    gone

Behind t1 an earlier incarnation has nothing: the target had lost it before. And what the partition
comes to anyway, from where it stands, is not gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicId
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.offsets.pieces import Piece
from mirrorfleet.records.positions import Position
from mirrorfleet.records.segments import Run

_ENDLESS: Final = 1 << 62


class Written(NamedTuple):
    """What one incarnation wrote to a target partition, and from which source topic."""

    topic: TopicId
    known: PartitionMap


class Gone(NamedTuple):
    """Source records that are not on the target any more."""

    first: SourceOffset
    """From here on copying brings all of them back; where the partition stands, if none is gone."""
    records: int
    others: int = 0
    """Those of source topics that had the name before: nobody can copy them again."""


def gone(stands: Position, written: Sequence[Written], kept: TargetOffset) -> Gone:
    """What lies behind `kept`; `written` has the latest incarnation first, which stands there."""
    (topic, now), *former = written
    if not former:
        back = now.to_source(kept)
        at = stands.next_source if back is None else min(back.offset, stands.next_source)
        return Gone(at, now.records_from(kept))
    end: int = (stands.next_target or _ENDLESS) if now.first is None else now.first[1]
    pieces = {topic: [now.between(kept, _ENDLESS)]}
    for earlier, known in former:
        pieces.setdefault(earlier, []).append(known.between(kept, end))
        end = end if known.first is None else min(end, known.first[1])
    first, records = _counted(pieces.pop(topic), stands.next_source)
    others = sum(_counted(each, _ENDLESS)[1] for each in pieces.values())
    return Gone(SourceOffset(first), records, others)


def in_force(histories: Iterable[Sequence[Run]], next_target: TargetOffset) -> list[Run]:
    """Runs of all incarnations by rising offsets, without what a later one wrote over.

    The latest incarnation comes first; `next_target` is where it stands.
    """
    found: list[Run] = []
    end = 0
    for runs in histories:
        found[:0] = [run for run in runs if not end or run.target_start < end]
        end = found[0].target_start if found else int(next_target)
    return found


def _counted(pieces: Iterable[Iterable[Piece]], end: int) -> tuple[int, int]:
    """The lowest source offset below `end`, and how many there are: a record that was copied twice
    counts once. Each of `pieces` rises.
    """
    lowest, reached, records = end, 0, 0
    for source, _, count in merge(*pieces, key=attrgetter("source")):
        begin, stop = max(source, reached), min(source + count, end)
        if begin < stop:
            lowest, reached, records = min(lowest, begin), stop, records + stop - begin
    return lowest, records
