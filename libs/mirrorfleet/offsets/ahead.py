"""Whether positions are as new as the map, by a segment of the same slot. Sans-IO.

A segment and the positions of its transaction become true together, and a target offset only
grows within an incarnation. So whoever has a run behind its position has lost a position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirrorfleet.core.ids import PartitionIdentity, TargetOffset
from mirrorfleet.records.segments import Segment


class Standing(NamedTuple):
    """What one segment says of partitions that are asked about."""

    ahead: set[PartitionIdentity]
    """It knows them to be copied farther."""
    in_step: bool
    """It has some of them, and none is ahead."""


def standing(segment: Segment, copied: Mapping[PartitionIdentity, TargetOffset]) -> Standing:
    """Compare with how far each was `copied` by its position; others are not looked at."""
    asked = [(identity, runs) for identity, runs in segment.runs if identity in copied]
    ahead = {identity for identity, runs in asked if runs[-1].target_end > copied[identity]}
    return Standing(ahead, bool(asked) and not ahead)
