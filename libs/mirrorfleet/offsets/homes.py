"""What a group is given on the target, and when it is left alone. Pure.

A group has one home: the side whose offsets are its own progress.

    home     begins when                                             what we do on the target
    source   the target has no offset but those that we wrote        follow, never backwards
    target   it has members there, or an offset that is not ours     nothing
    source   again: members on the source, and none on the target for long enough

Offsets that we wrote are remembered (`Checkpoint.written`), so that they are never taken for
progress: not here, and not by the fleet that copies the other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.checkpoint import Checkpoint

OWN_GROUPS = "mirrorfleet."
"""Groups of ours begin with it and are never copied."""


class GroupOffset(NamedTuple):
    """A committed offset: the next record to read."""

    offset: int
    metadata: str = ""


class Activity(StrEnum):
    """Whether a group has members."""

    ACTIVE = "active"
    IDLE = "idle"


class Home(StrEnum):
    """Whose offsets are the group's own."""

    SOURCE = "source"
    TARGET = "target"


Written = Mapping[TopicPartition, tuple[TargetOffset, ...]]
"""What we wrote for one group, by target partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group on both sides, at one look. `idle_s`: without members on the target so long."""

    source: Activity
    target: Activity
    checkpoints: tuple[Checkpoint, ...]
    offsets: Mapping[TopicPartition, GroupOffset] = field(default_factory=dict)
    written: Written = field(default_factory=dict)
    idle_s: float = 0.0
    rewrite: bool = False
    """Whether offsets that are right are written again, before the target forgets them."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`why` is a sentence for people; `commits` are checkpoints whose target offset is to be set.

    They carry in `written` what may stand there afterwards, whether or not the commit succeeds.
    """

    home: Home
    why: str
    commits: tuple[Checkpoint, ...] = ()


def decide(view: GroupView, *, home_again_s: float) -> Decision:
    """What to do for the group on the target."""
    if view.target is Activity.ACTIVE:
        return Decision(Home.TARGET, "it has members on the target")
    foreign = [point.partition for point in view.checkpoints if _is_foreign(view, point.partition)]
    if foreign:
        back = view.source is Activity.ACTIVE and view.idle_s >= home_again_s
        if not back:
            at = view.offsets[foreign[0]].offset
            return Decision(Home.TARGET, f"it went to {at} of {foreign[0]} on the target by itself")
    commits = tuple(_commit(view, point) for point in view.checkpoints if _is_due(view, point))
    return Decision(Home.SOURCE, "its offsets on the target are ours", commits)


def _is_foreign(view: GroupView, partition: TopicPartition) -> bool:
    now = view.offsets.get(partition)
    return now is not None and now.offset not in view.written.get(partition, ())


def _is_due(view: GroupView, point: Checkpoint) -> bool:
    now = view.offsets.get(point.partition)
    if now is None or now.offset < point.target:
        return True
    return view.rewrite and now.offset == point.target


def _commit(view: GroupView, point: Checkpoint) -> Checkpoint:
    now = view.offsets.get(point.partition)
    before = () if now is None or now.offset == point.target else (TargetOffset(now.offset),)
    return replace(point, written=(point.target, *before))


def checkpoints_of(
    group: str,
    committed: Mapping[TopicPartition, GroupOffset],
    copies: Copies,
    flow: Flow,
    *,
    starts: Mapping[TopicPartition, int],
) -> list[Checkpoint]:
    """Checkpoints of a group for what a rule with this group copies; sorted by partition.

    `starts` are target log starts: what retention took there cannot be read, and an offset below
    would send a consumer wherever its reset policy says. A partition that has none is left out.
    """
    found: list[Checkpoint] = []
    for at in sorted(committed):
        answer = answer_for(group, at, committed[at].offset, copies, flow)
        if answer is not None and answer.other in starts:
            target = max(answer.offset, starts[answer.other])
            found.append(
                Checkpoint(
                    group,
                    answer.other,
                    SourceOffset(committed[at].offset),
                    TargetOffset(target),
                    committed[at].metadata,
                )
            )
    return found


def answer_for(
    group: str, at: TopicPartition, offset: int, copies: Copies, flow: Flow
) -> Answer | None:
    """The translation of one offset of a group; None when no rule gives this group that topic."""
    entry = copies.by_source(at)
    if entry is None or not _takes(flow, entry.rule, group):
        return None
    return copies.to_target(at, offset)


def wanted_groups(flow: Flow, groups: Iterable[str]) -> list[str]:
    """Groups that some rule of the link takes; ours never."""
    return sorted(
        group
        for group in groups
        if not group.startswith(OWN_GROUPS) and any(r.groups.matches(group) for r in flow.rules)
    )


def own_progress(
    committed: Mapping[TopicPartition, GroupOffset], echoes: Written
) -> dict[TopicPartition, GroupOffset]:
    """What the group itself committed: without what the fleet of the other way wrote for it."""
    return {at: one for at, one in committed.items() if one.offset not in echoes.get(at, ())}


def _takes(flow: Flow, rule: str, group: str) -> bool:
    return any(each.name == rule and each.groups.matches(group) for each in flow.rules)
