"""What of ours is written again where no look is possible, as while the source is away. Pure.

The target forgets an offset that nobody writes (offsets.retention.minutes, 7 days by default) of a
group without members, and that is what a group is until it is needed there. Nothing is translated:
the same offset is set once more, where it is still what the last checkpoint says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import Decision, GroupOffset, Home, Written, is_copied_for
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

    A group that went anywhere by itself on what this link copies is left alone.
    """
    found: dict[str, list[Checkpoint]] = {}
    for point in points:
        now = idle.get(point.group, {}).get(point.partition)
        stands = now is not None and now.offset == point.target and now.offset in point.written
        is_there = point.partition in there
        if stands and is_there and is_copied_for(point.group, point.partition, copies, flow):
            again = replace(point, written=(point.target,))
            found.setdefault(point.group, []).append(again)
    return {
        group: Decision(Home.SOURCE, "nobody can look at the source", tuple(mine), tuple(mine))
        for group, mine in found.items()
        if not own_places(idle[group], written_of(group), copies)
    }
