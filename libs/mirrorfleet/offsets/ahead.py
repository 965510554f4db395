"""Whether positions are as new as the map, by a segment of the same slot. Sans-IO.

A segment and the positions of its transaction become true together, and a target offset only
grows within an incarnation: the last run of a partition ends where its position says. So whoever
has a run behind its position has lost a position, and one whose last run ends before has lost
segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirrorfleet.core.ids import PartitionIdentity, TargetOffset
from mirrorfleet.records.segments import Segment

Ends = dict[PartitionIdentity, TargetOffset]
"""Behind the last copied record, by what the map has of a partition."""


class Standing(NamedTuple):
    """What one segment says of partitions that are asked about."""

    ends: Ends
    in_step: bool
    """It has some of them, and none is ahead."""


class Compared(NamedTuple):
    """Positions beside the map."""

    ahead: set[PartitionIdentity]
    """The map knows them to be copied farther."""
    short: Ends
    """The map ends there, and their positions say that more was copied."""


def standing(segment: Segment, copied: Mapping[PartitionIdentity, TargetOffset]) -> Standing:
    """Compare with how far each was `copied` by its position; others are not looked at."""
    ends = {at: runs[-1].target_end for at, runs in segment.runs if at in copied}
    return Standing(ends, bool(ends) and not compared(ends, copied).ahead)


def compared(ends: Ends, copied: Mapping[PartitionIdentity, TargetOffset]) -> Compared:
    """Of partitions with these ends, the last that the map has."""
    ahead = {identity for identity, end in ends.items() if end > copied[identity]}
    short = {identity: end for identity, end in ends.items() if end < copied[identity]}
    return Compared(ahead, short)
