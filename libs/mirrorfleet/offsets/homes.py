"""What a group is given on the target, and when it is left alone. Pure.

A group has one home: the side whose offsets are its own progress.

    home     begins when                                             what we do on the target
    source   the target has no offset but those that we wrote        follow, never backwards
    target   it has members there, or an offset that is not ours     nothing
    source   again: it is at work there, and rests on the target for long enough

At work is who has members, and who moves: see `resting`.

Offsets that we wrote are remembered (`Checkpoint.written`), so that they are never taken for
progress: not here, and not by the fleet that copies the other way.

Backwards goes only what we wrote, where the target lost its tail, or was made again, and other
records have the offsets now. Who looks first after the loss sees it by translating the last
checkpoint again:

    checkpoint of before   90 -> 180     as translated now   90 -> 140     180 is too far
    its heir               90 -> 140, written 140, 180                     set back is begun
    once it is set         90 -> 140, written 140                          180 would be progress

Where copying began behind a group it stays where it is on the target: see `late`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.core.names import ID_PREFIX
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.checkpoint import Checkpoint

_MOST_HIDDEN: Final = 3
"""Offsets of before that are remembered while the target shows none."""


class GroupOffset(NamedTuple):
    """A committed offset: the next record to read."""

    offset: int
    metadata: str = ""


class Activity(StrEnum):
    """Whether a group is at work on one side."""

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
    """One group on both sides, at one look. `idle_s`: it rests on the target for so long."""

    source: Activity
    target: Activity
    checkpoints: tuple[Checkpoint, ...]
    offsets: Mapping[TopicPartition, GroupOffset] = field(default_factory=dict)
    written: Written = field(default_factory=dict)
    idle_s: float = 0.0
    rewrite: frozenset[TopicPartition] = frozenset()
    """Where an offset that is right is written again, before the target forgets it."""
    cut: frozenset[TopicPartition] = frozenset()
    """Where what we wrote is too far since the target lost what it had: see `cut_off`."""
    late: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where copying began behind the group, with where the target's log begins: see `late`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`why` is a sentence for people; `commits` are those `checkpoints` whose offset is to be set.

    They carry in `written` what may stand there afterwards, whether or not the commit succeeds.
    `unset` have no place on the target that anybody knows.
    """

    home: Home
    why: str
    commits: tuple[Checkpoint, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    unset: tuple[Checkpoint, ...] = ()

    @property
    def places(self) -> dict[TopicPartition, GroupOffset]:
        """What is to be set."""
        return {one.partition: GroupOffset(one.target, one.metadata) for one in self.commits}


def decide(view: GroupView, *, home_again_s: float) -> Decision:
    """What to do for the group on the target."""
    view, unset = _placed(view)
    if view.target is Activity.ACTIVE:
        return _left_alone(view, "it has members on the target")
    foreign = [point.partition for point in view.checkpoints if _is_foreign(view, point.partition)]
    if foreign:
        back = view.source is Activity.ACTIVE and view.idle_s >= home_again_s
        if not back:
            at = view.offsets[foreign[0]].offset
            return _left_alone(view, f"it went to {at} of {foreign[0]} on the target by itself")
    due = {point.partition for point in view.checkpoints if _is_due(view, point)}
    points = tuple(
        begun(point, view.offsets.get(point.partition), view.written.get(point.partition, ()))
        if point.partition in due
        else _in_place(view, point)
        for point in view.checkpoints
    )
    commits = tuple(point for point in points if point.partition in due)
    return Decision(Home.SOURCE, "its offsets on the target are ours", commits, points, unset)


def are_same(
    points: Iterable[Checkpoint],
    one: Mapping[TopicPartition, GroupOffset],
    other: Mapping[TopicPartition, GroupOffset],
) -> bool:
    """Whether nobody moved the group where it is ours to set; other links may, elsewhere."""
    return all(one.get(point.partition) == other.get(point.partition) for point in points)


def begun(point: Checkpoint, now: GroupOffset | None, ours: tuple[TargetOffset, ...]) -> Checkpoint:
    """As it is written before its offset is set, where `now` stands, and `ours` was written."""
    # none may only be hidden from us: what stood there first may still stand there
    former = ours[-_MOST_HIDDEN:] if now is None else (TargetOffset(now.offset),)
    before = (one for one in former if one != point.target)
    return replace(point, written=(point.target, *before))


def settled(commits: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Checkpoints for commits that succeeded, where something higher counts as ours no more."""
    return [
        replace(point, written=(point.target,))
        for point in commits
        if max(point.written) > point.target
    ]


def cut_off(
    points: Iterable[Checkpoint],
    offsets: Mapping[TopicPartition, GroupOffset],
    last_of: Callable[[Checkpoint], Checkpoint | None],
    copies: Copies,
    starts: Mapping[TopicPartition, int],
) -> frozenset[TopicPartition]:
    """Partitions where an offset stands that was right until the target lost its tail, or all.

    `last_of` gives the newest checkpoint of the same group and partition, whoever wrote it. Above
    what that led to we wrote nothing that we know the reason of, so that is left alone.
    """
    found: set[TopicPartition] = set()
    for point in points:
        now, last = offsets.get(point.partition), last_of(point)
        if now is None or last is None or not point.target < now.offset <= last.target:
            continue
        cut, entry = copies.cut(point.partition), copies.by_target(point.partition)
        if entry is None or cut is None or now.offset < cut:
            continue
        answer = copies.to_target(entry.source, last.source)
        if answer is not None and max(answer.offset, starts[point.partition]) < last.target:
            found.add(point.partition)
    return frozenset(found)


def held_at_parting(
    points: Iterable[Checkpoint],
    last_of: Callable[[Checkpoint], Checkpoint | None],
    copies: Copies,
    starts: Mapping[TopicPartition, int],
) -> list[Checkpoint]:
    """Who stands still in what the source has lost has read nothing of the new history, also once
    that has grown past it: it goes on where that begins, as consumers do by KIP-320.

    That it stands still is told by its last checkpoint, made before the new history was copied.
    Where that is copied once more (`rewound`), who rests and has read it is held as well: it reads
    that twice.
    """
    found: list[Checkpoint] = []
    for point in points:
        last = last_of(point)
        stands = last is not None and last.source == point.source
        found.append(_held(point, last, copies, starts) if last and stands else point)
    return found


def _held(
    point: Checkpoint, last: Checkpoint, copies: Copies, starts: Mapping[TopicPartition, int]
) -> Checkpoint:
    entry = copies.by_target(point.partition)
    if entry is None:
        return point
    for parted, began in copies.parted(entry):
        begin = copies.to_target(entry.source, parted)
        at = max(0 if begin is None else begin.offset, starts[point.partition])
        # or it stood there still when the target lost what it had
        stands = last.target <= at or point.target < last.target <= began
        if point.source > parted and stands and at < point.target:
            return replace(point, target=TargetOffset(at))
    return point


def _placed(view: GroupView) -> tuple[GroupView, tuple[Checkpoint, ...]]:
    """With checkpoints that lead a group over nothing that it may lack, and those that cannot be.

    What is below the begin of the target's log it cannot read there anyway.
    """
    points: list[Checkpoint] = []
    unset: list[Checkpoint] = []
    for point in view.checkpoints:
        start, now = view.late.get(point.partition), view.offsets.get(point.partition)
        if start is None:
            points.append(point)
        elif now is None:
            unset.append(point)
        else:
            stays = min(point.target, max(now.offset, start))
            points.append(replace(point, target=TargetOffset(stays)))
    return replace(view, checkpoints=tuple(points)), tuple(unset)


def _left_alone(view: GroupView, why: str) -> Decision:
    """From now on the group may come to any offset by itself: a set back that was begun is not gone
    on with. Of one that is due the last checkpoint is the only evidence, and stays as it is.
    """
    points = tuple(_settled(view, point) for point in view.checkpoints if not _kept(view, point))
    return Decision(Home.TARGET, why, checkpoints=points)


def _kept(view: GroupView, point: Checkpoint) -> bool:
    ours = view.written.get(point.partition, ())
    is_begun = bool(ours) and max(ours) > ours[0]
    return point.partition in view.cut and not is_begun


def _is_foreign(view: GroupView, partition: TopicPartition) -> bool:
    now = view.offsets.get(partition)
    return now is not None and now.offset not in view.written.get(partition, ())


def _is_due(view: GroupView, point: Checkpoint) -> bool:
    now = view.offsets.get(point.partition)
    if now is None or now.offset < point.target:
        return True
    if now.offset == point.target:
        return point.partition in view.rewrite
    return not _is_foreign(view, point.partition) and (
        point.partition in view.cut or now.offset > view.written[point.partition][0]
    )


def _in_place(view: GroupView, point: Checkpoint) -> Checkpoint:
    """Not due: where the group went by itself before it came home is ours to follow from. Told
    twice: nobody has written it for the group, which has read up to there (`written_for`).
    """
    if _is_foreign(view, point.partition):
        at = TargetOffset(view.offsets[point.partition].offset)
        return replace(point, written=(at, at) if at > point.target else (at,))
    return _settled(view, point)


def _settled(view: GroupView, point: Checkpoint) -> Checkpoint:
    """With what was written before; of a set back only what stands there now."""
    ours = view.written.get(point.partition, ())
    if ours and max(ours) > ours[0]:
        now = view.offsets.get(point.partition)
        stands = tuple(one for one in ours if now is not None and one == now.offset)
        ours = stands[:1] or ours[:1]
    return replace(point, written=ours)


def checkpoints_of(
    group: str,
    committed: Mapping[TopicPartition, GroupOffset],
    copies: Copies,
    flow: Flow,
    *,
    starts: Mapping[TopicPartition, int],
    empty: AbstractSet[TopicPartition] = frozenset(),
) -> list[Checkpoint]:
    """Checkpoints of a group for what a rule with this group copies; sorted by partition.

    `starts` are target log starts: what retention took there cannot be read, and an offset below
    would send a consumer wherever its reset policy says. A partition that has none is left out.
    `empty` are copies without any record: whatever comes is behind their start.
    """
    found: list[Checkpoint] = []
    taken: dict[tuple[str, str], bool] = {}
    for at in sorted(committed):
        entry = copies.by_source(at)
        if entry is None:
            continue
        about = (entry.source_topic, entry.rule)
        if about not in taken:  # patterns are slow, and a topic has many partitions
            taken[about] = _takes(flow, entry, group)
        if not taken[about] or entry.target not in starts:
            continue
        answer = copies.to_target(at, committed[at].offset)
        if answer is not None or entry.target in empty:
            target = max(0 if answer is None else answer.offset, starts[entry.target])
            found.append(
                Checkpoint(
                    group,
                    entry.target,
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
    if entry is None or not _takes(flow, entry, group):
        return None
    return copies.to_target(at, offset)


def answer_back(
    group: str, at: TopicPartition, offset: int, copies: Copies, flow: Flow
) -> Answer | None:
    """As `answer_for`, of an offset on the target."""
    return copies.to_source(at, offset) if is_copied_for(group, at, copies, flow) else None


def is_copied_for(group: str, at: TopicPartition, copies: Copies, flow: Flow) -> bool:
    """Whether a target partition is a copy that some rule gives this group."""
    entry = copies.by_target(at)
    return entry is not None and _takes(flow, entry, group)


def entries_of(
    committed: Iterable[Mapping[TopicPartition, GroupOffset]], copies: Copies
) -> list[CatalogPartition]:
    """What is copied of that in which groups have offsets; each once."""
    entries = map(copies.by_source, {at for offsets in committed for at in offsets})
    return [entry for entry in entries if entry is not None]


def wanted_groups(flow: Flow, groups: Iterable[str]) -> list[str]:
    """Groups that some rule of the link takes; ours never."""
    return sorted(
        group
        for group in groups
        if not group.startswith(ID_PREFIX) and any(r.groups.matches(group) for r in flow.rules)
    )


def own_progress(
    committed: Mapping[TopicPartition, GroupOffset], echoes: Written
) -> dict[TopicPartition, GroupOffset]:
    """What the group itself committed: without what the fleet of the other way wrote for it."""
    return {at: one for at, one in committed.items() if one.offset not in echoes.get(at, ())}


def written_for(written: Written) -> Written:
    """Without the places that the group had come to by itself, and is only followed from."""
    return {at: ours for at, ours in written.items() if len(ours) != 2 or ours[0] != ours[1]}


def _takes(flow: Flow, entry: CatalogPartition, group: str) -> bool:
    """By the topic: rules are renamed and split, and the catalog may know of it before us.

    Of several rules that take the topic that of the entry copies it.
    """
    rules = [rule for rule in flow.rules if flow.takes(rule, entry.source_topic)]
    rules.sort(key=lambda rule: rule.name != entry.rule)
    return bool(rules) and rules[0].groups.matches(group)
