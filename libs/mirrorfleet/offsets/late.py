"""Copies that begin behind records of others, and groups that may lack some of these. Pure.

    source   . . . n . . N . .        n: where a group stands    N: the first record that we copied
    target   m m m m m m T . .        m: of MirrorMaker 2, or ours of before the archive was lost

Which of the m it has read the map does not know, and T would pass over the others. So where it
stands on the target it stays until it has read up to N at the source, and where it has no place
there somebody must give it one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import Found
from mirrorfleet.records.checkpoint import Checkpoint


class FirstCopied(NamedTuple):
    """The first record that was copied, on both sides, and by which incarnation it is known."""

    identity: PartitionIdentity
    source: SourceOffset
    target: TargetOffset


class LateCopies:
    """Which copies they are, by where logs of the target begin; each is looked up once."""

    def __init__(self, copies: Copies, starts: Mapping[TopicPartition, int]) -> None:
        self._copies = copies
        self._starts = starts
        self._firsts: dict[TopicPartition, FirstCopied | None] = {}

    def among(self, points: Iterable[Checkpoint]) -> dict[TopicPartition, int]:
        """Where a group stands before the first record that was copied, and the target's log begins
        before that one, too: where it does.

        What lies there may be records of others, or only what was aborted: the map cannot tell.
        """
        found: dict[TopicPartition, int] = {}
        for point in points:
            first = self.first(point.partition)
            if first is not None and point.source < first.source:
                found[point.partition] = self._starts[point.partition]
        return found

    def first(self, at: TopicPartition) -> FirstCopied | None:
        """The first record of a copy that something lies before on the target."""
        if at not in self._firsts:
            self._firsts[at] = self._looked_up(at)
        return self._firsts[at]

    def _looked_up(self, at: TopicPartition) -> FirstCopied | None:
        entry = self._copies.by_target(at)
        first = None if entry is None else self._copies.to_target(entry.source, 0)
        if entry is None or first is None:
            return None
        if first.found is not Found.BEFORE or first.offset <= self._starts[at]:
            return None
        back = self._copies.to_source(at, first.offset)
        if back is None:
            return None
        return FirstCopied(entry.identity, SourceOffset(back.offset), TargetOffset(first.offset))


def unset_words(unset: Sequence[Checkpoint]) -> str:
    """Why a group has no offset in some partitions, and what helps."""
    first, more = unset[0], len(unset) - 1
    others = f" and {more} more" if more else ""
    return (
        f"no offset is set in {first.partition}{others}: the group stands at {first.source}, and"
        " copying began behind it, where the target has records already. Set it there by hand,"
        " or let it read on at the source."
    )
