"""What of ours is written again where no look is possible, as while the source is away, and where
a look has no place, as while a copy that began anew has no record yet. Pure.

The target forgets an offset that nobody writes (offsets.retention.minutes, 7 days by default) of a
group without members, and that is what a group is until it is needed there. Nothing is translated:
the same offset is set once more, where it is still what the last checkpoint says, or where nothing
stands any more: all offsets of a group that once worked there are forgotten so long after its last
member left, however late they were written (GroupMetadataManager, OffsetExpirationConditionImpl).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import (
    Decision,
    GroupOffset,
    Home,
    Written,
    is_copied_for,
    own_progress,
)
from mirrorfleet.offsets.resting import own_places
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.checkpoint import Checkpoint


def kept(
    points: Iterable[Checkpoint],
    idle: Mapping[str, Mapping[TopicPartition, GroupOffset]],
    written_of: Callable[[str], Written],
    there: AbstractSet[TopicPartition],
    copies: Copies,
    flow: Flow,
) -> dict[str, Decision]:
    """What to set for whom. `points` are last checkpoints; `idle` are the offsets of groups without
    members on the target, and `there` copies whose topic is the one that the map is about.

    A group that went anywhere by itself on what this link copies for it is left alone.
    """
    copied_for = {
        group: {at: now for at, now in mine.items() if is_copied_for(group, at, copies, flow)}
        for group, mine in idle.items()
    }
    found: dict[str, list[Checkpoint]] = {}
    for point in points:
        now = idle.get(point.group, {}).get(point.partition)
        if now is None:
            stands = point.group in idle and _leads_there(point, copies)
        else:
            stands = now.offset == point.target and now.offset in point.written
        is_there = point.partition in there
        if stands and is_there and is_copied_for(point.group, point.partition, copies, flow):
            again = replace(point, written=(point.target,))
            found.setdefault(point.group, []).append(again)
    return {
        group: Decision(Home.SOURCE, "what is set is kept", tuple(mine), tuple(mine))
        for group, mine in found.items()
        if not own_places(copied_for[group], written_of(group), copies)
    }


def _leads_there(point: Checkpoint, copies: Copies) -> bool:
    """Whether it is of the copy that the map is about: of one before there may be nothing left."""
    entry = copies.by_target(point.partition)
    answer = None if entry is None else copies.to_target(entry.source, point.source)
    return answer is not None and answer.offset >= point.target


def placeless(
    newest: Iterable[Checkpoint],
    points: Iterable[Checkpoint],
    committed: Mapping[str, Mapping[TopicPartition, GroupOffset]],
    echoes_of: Callable[[str], Written],
    copies: Copies,
) -> list[Checkpoint]:
    """Those of the `newest` checkpoints that a look has no place for, as the map has nothing of the
    copy yet, though the group has progress at the source: `committed`, but for our echoes there.

    `points` are the checkpoints of the look.
    """
    placed = {(point.group, point.partition) for point in points}
    found: list[Checkpoint] = []
    for point in newest:
        entry = copies.by_target(point.partition)
        there = committed.get(point.group, {})
        if entry is None or entry.source not in there or (point.group, point.partition) in placed:
            continue
        own = own_progress({entry.source: there[entry.source]}, echoes_of(point.group))
        if own and copies.to_target(entry.source, point.source) is None:
            found.append(point)
    return found


def placeless_words(points: Sequence[Checkpoint]) -> str:
    """Why offsets of a group do not follow."""
    first, more = points[0], len(points) - 1
    others = f" and {more} more" if more else ""
    return (
        f"no place yet in {first.partition}{others}: the copy began anew, and nothing that it has"
        f" since is known. The group stays at {first.target}, which is kept, until there is."
    )
