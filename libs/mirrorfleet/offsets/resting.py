"""Since when a group rests where it went by itself on the target, and who moves meanwhile. Pure.

Members alone do not tell who is at work: looks come seconds apart, a consumer may join, commit and
leave in between, and one that assigns its partitions itself is never a member. Offsets tell it:

    on the target    the group's own offset is another than at the last look     it rests anew
    on the source    its own offset is another than when the rest began          it is at work there

Offsets of the source that the fleet of the other way wrote are not the group's own. One that it
writes while we ask is known as such at the next look, so that a move counts at the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset, Written, own_progress

Offsets = Mapping[TopicPartition, GroupOffset]

_SURE: Final = 2
"""Looks in a row that see an offset of the source elsewhere."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A group without members on the target, whose own offsets there are `target` since `since`.

    `source` is what stood at the source when it began, whoever set it. `moved` counts looks in a
    row that saw the group's own offsets elsewhere there.
    """

    since: float
    target: Offsets
    source: Offsets
    moved: int = 0

    @property
    def is_at_work_at_source(self) -> bool:
        """Whether the group moves at the source while it rests on the target."""
        return self.moved >= _SURE


def own_places(
    offsets: Offsets, written: Written, copies: Copies
) -> dict[TopicPartition, GroupOffset]:
    """Where the group went by itself on what this link copies; other links set it elsewhere."""
    own = own_progress(offsets, written)
    return {at: place for at, place in own.items() if copies.by_target(at) is not None}


def rested(
    before: Rest | None,
    now: float,
    *,
    target: Offsets,
    source: Offsets,
    own: Offsets,
    copies: Copies,
) -> Rest:
    """The rest as this look finds it. `own` is what of `source` the group itself committed."""
    if before is None or before.target != target:
        return Rest(now, target, source)
    has_moved = any(
        at not in before.source or before.source[at].offset != place.offset
        for at, place in own.items()
        if copies.by_source(at) is not None
    )
    return replace(before, moved=before.moved + 1 if has_moved else 0)
