"""What of ours is written again where no look is possible, as while the source is away, and where
a look has no place, as while a copy that began anew has no record yet. Pure.

The target forgets an offset that nobody writes (offsets.retention.minutes, 7 days by default) of a
group without members, and that is what a group is until it is needed there. Nothing is translated:
the same offset is set once more, where it is still what the last checkpoint says, or where nothing
stands any more: all offsets of a group that once worked there are forgotten so long after its last
member left, however late they were written (GroupMetadataManager, OffsetExpirationConditionImpl).

Below where the target's log begins nothing is kept: a consumer there would go on where its reset
policy says, which may be the end. As at a look, the group is set to the begin:

    last checkpoint   90 -> 100, written 100     the log begins at 400, and 100 stands
    its heir          90 -> 400, written 400, 100
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mirrorfleet.core.ids import TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import (
    Decision,
    GroupOffset,
    Home,
    Written,
    begun,
    is_copied_for,
    own_progress,
)
from mirrorfleet.offsets.resting import own_places
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.checkpoint import Checkpoint

Starts = Mapping[TopicPartition, int]
"""Where logs of the target begin."""


def due_again(
    points: Iterable[Checkpoint],
    old: AbstractSet[Checkpoint],
    offsets: Mapping[str, Mapping[TopicPartition, GroupOffset]],
    starts: Starts,
) -> list[Checkpoint]:
    """Those to set now: the `old` ones, and whose offset the target does not have any more, or has
    below where its log begins. Of a group that is not in `offsets` nobody knows.
    """
    found: list[Checkpoint] = []
    for point in points:
        mine = offsets.get(point.group)
        now = None if mine is None else mine.get(point.partition)
        is_lost = mine is not None and now is None
        is_below = now is not None and now.offset < starts.get(point.partition, 0)
        if is_lost or is_below or point in old:
            found.append(point)
    return found


def kept(
    points: Iterable[Checkpoint],
    idle: Mapping[str, Mapping[TopicPartition, GroupOffset]],
    written_of: Callable[[str], Written],
    starts: Starts,
    copies: Copies,
    flow: Flow,
) -> dict[str, Decision]:
    """What to set for whom. `points` are last checkpoints; `idle` are the offsets of groups without
    members on the target, and `starts` are of copies whose topic is the one that the map is about:
    0 where nobody says.

    A group that went anywhere by itself on what this link copies for it is left alone.
    """
    copied_for = {
        group: {at: now for at, now in mine.items() if is_copied_for(group, at, copies, flow)}
        for group, mine in idle.items()
    }
    found: dict[str, list[Checkpoint]] = {}
    for point in points:
        mine, start = idle.get(point.group), starts.get(point.partition)
        if mine is None or start is None:
            continue
        now = mine.get(point.partition)
        is_ours = _is_ours(point, now, start, copies)
        if is_ours and is_copied_for(point.group, point.partition, copies, flow):
            readable = replace(point, target=TargetOffset(max(point.target, start)))
            again = begun(readable, now, point.written)
            found.setdefault(point.group, []).append(again)
    return {
        group: Decision(Home.SOURCE, "what is set is kept", tuple(mine), tuple(mine))
        for group, mine in found.items()
        if not own_places(copied_for[group], written_of(group), copies)
    }


def untold(
    decisions: Mapping[str, Decision], last_of: Callable[[Checkpoint], Checkpoint | None]
) -> list[Checkpoint]:
    """What is about to be set, and the last checkpoint does not say so: it has to be written first.

    What is only set once more needs no other checkpoint.
    """
    found: list[Checkpoint] = []
    for point in (one for decision in decisions.values() for one in decision.commits):
        last = last_of(point)
        is_same = last is not None and last.target == point.target
        if last is None or not is_same or not set(point.written) <= set(last.written):
            found.append(point)
    return found


def _is_ours(point: Checkpoint, now: GroupOffset | None, start: int, copies: Copies) -> bool:
    """Whether it is ours to set. Below the log's begin so is whatever we wrote: who wrote the
    checkpoint may have died before the offset was set.
    """
    if now is None:
        return _leads_there(point, start, copies)
    is_due = now.offset == point.target or now.offset < start
    return is_due and now.offset in point.written


def _leads_there(point: Checkpoint, start: int, copies: Copies) -> bool:
    """Whether it is of the copy that the map is about: of one before there may be nothing left."""
    entry = copies.by_target(point.partition)
    answer = None if entry is None else copies.to_target(entry.source, point.source)
    return answer is not None and max(answer.offset, start) >= point.target


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
