"""Groups on both sides of a link, and offsets translated: in rows and in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import answer_for, wanted_groups
from mirrorfleet.offsets.index import Found
from mirrorfleet.records.incarnations import FROM_THE_START
from mirrorfleet.views.format import count, plural
from mirrorfleet.views.models import (
    GroupOffsetRow,
    GroupPage,
    GroupRow,
    GroupsPage,
    Translation,
)
from mirrorfleet.views.paging import paged

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity, TopicPartition
    from mirrorfleet.offsets.copies import Answer, Copies
    from mirrorfleet.offsets.homes import GroupOffset
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.views.pages import Wanted

NO_GROUP: Final = "Dead"
"""Kafka's word for a group that a cluster does not know."""
_WITHOUT_MEMBERS: Final = frozenset({"Empty", NO_GROUP})
"""Any other word counts as a group with members, as it does for checkpoint."""
Offsets = Mapping["TopicPartition", "GroupOffset"]

_FOUND: Final = {
    Found.EXACT: "the same record",
    Found.END: "nothing after it is copied yet: the end of the copy",
    Found.BEFORE: "before the first copied record: that record",
}


_ANOTHER: Final = "was deleted, and what has its name now is another topic, or nothing"
_DELETED: Final = {"source": f"the source's topic {_ANOTHER}", "target": f"the copy {_ANOTHER}"}
_NO_MAP: Final = "the offset map is not known yet"
_STAYS: Final = (
    "it stays here, where somebody else put it, until it has read at the source up to where copying"
    " began: what it has not read from before that is not ours"
)
_UNSURE: Final = Sides(Seen.UNSURE, Seen.UNSURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What both clusters said about some groups, by group. A group that is absent is not known.

    `refused` are groups that a cluster did not answer for, with its words. Members that it did not
    tell are None. `sides` says of copies whether both have the topics still that the map is about,
    `copied` up to which source offset their owners have copied: the map knows records only.
    `log_starts` are the source's, `target_starts` those of copies, as far as they were told.
    """

    source_states: Mapping[str, str] = field(default_factory=dict)
    target_states: Mapping[str, str] = field(default_factory=dict)
    source_offsets: Mapping[str, Offsets] = field(default_factory=dict)
    target_offsets: Mapping[str, Offsets] = field(default_factory=dict)
    source_members: Sequence[str] | None = ()
    target_members: Sequence[str] | None = ()
    sides: Mapping[PartitionIdentity, Sides] = field(default_factory=dict)
    copied: Mapping[PartitionIdentity, int] = field(default_factory=dict)
    log_starts: Mapping[PartitionIdentity, int] = field(default_factory=dict)
    target_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def listed(flow: Flow, source_states: Mapping[str, str], wanted: Wanted) -> list[str]:
    """Groups of the source that a rule of the link takes, by name."""
    text = wanted.text.lower()
    return [group for group in wanted_groups(flow, source_states) if text in group.lower()]


def groups_page(
    flow: Flow, facts: GroupFacts, copies: Copies, wanted: Wanted, *, map_words: str, now_ms: int
) -> GroupsPage:
    """A page of groups; `facts` has offsets for those of this page at least."""
    names, page = paged(listed(flow, facts.source_states, wanted), wanted.number, wanted.size)
    return GroupsPage(
        now_ms=now_ms,
        source=flow.link.source,
        target=flow.link.target,
        trouble="",
        map_words=map_words,
        groups=[group_row(name, flow, facts, copies, map_words=map_words) for name in names],
        page=page,
    )


def group_page(
    group: str,
    flow: Flow,
    facts: GroupFacts,
    copies: Copies,
    wanted: Wanted,
    *,
    map_words: str,
    now_ms: int,
) -> GroupPage:
    """A group, offset by offset."""
    offsets = offset_rows(group, flow, facts, copies, map_words=map_words)
    shown, page = paged(offsets, wanted.number, wanted.size)
    return GroupPage(
        now_ms=now_ms,
        source=flow.link.source,
        target=flow.link.target,
        group=group,
        trouble="",
        map_words=map_words,
        row=group_row(group, flow, facts, copies, map_words=map_words),
        source_members=_told(facts.source_members),
        target_members=_told(facts.target_members),
        offsets=shown,
        page=page,
    )


def group_row(
    group: str, flow: Flow, facts: GroupFacts, copies: Copies, *, map_words: str
) -> GroupRow:
    """A group in one line; by a map that is not read whole (`map_words`) none is in place."""
    rows = offset_rows(group, flow, facts, copies, map_words=map_words)
    verdict, words = _group_words(group, rows, facts, map_words)
    return GroupRow(
        group=group,
        source_state=facts.source_states.get(group, NO_GROUP),
        target_state=facts.target_states.get(group, NO_GROUP),
        partitions=len(rows),
        verdict=verdict,
        words=words,
    )


def offset_rows(
    group: str, flow: Flow, facts: GroupFacts, copies: Copies, *, map_words: str
) -> list[GroupOffsetRow]:
    """The offsets of a group for what the link copies under a rule with this group."""
    mine = facts.source_offsets.get(group, {})
    theirs = facts.target_offsets.get(group, {})
    rows: list[GroupOffsetRow] = []
    for at in sorted(mine):
        entry = copies.by_source(at)
        if entry is not None:
            sides = facts.sides.get(entry.identity, _UNSURE)
            answer = answer_for(group, at, mine[at].offset, copies, flow)
            row = _offset_row(at, mine[at].offset, entry.target, answer, theirs, map_words)
            row = _at_start(row, facts.target_starts.get(entry.target, 0))
            early = _early(answer, facts.copied.get(entry.identity, 0))
            row = _waiting(row, early) if early else row
            left_out = _left_out(answer, copies, facts.log_starts.get(entry.identity, 0))
            rows.append(_checked(_staying(row.model_copy(update={"left_out": left_out})), sides))
    return rows


def _at_start(row: GroupOffsetRow, start: int) -> GroupOffsetRow:
    """Below where the copy begins now nobody can go on: the first place is that begin."""
    if row.translated is None or row.translated >= start:
        return row
    words = f"the copy begins at {count(start)} now"
    if row.target_offset is not None and row.target_offset < start:
        words = f"{words}, and a consumer would go wherever its reset policy says"
    return row.model_copy(update={"translated": start, "words": words})


def _early(answer: Answer | None, copied: int) -> int:
    """Offsets before the group that are still to be copied: they will come behind it over there."""
    if answer is None or answer.found is not Found.END:
        return 0
    return max(0, answer.asked - max(answer.copied_to, copied))


def _staying(row: GroupOffsetRow) -> GroupOffsetRow:
    """With who it is that sets nothing, where somebody else put the group before our first copy."""
    return row.model_copy(update={"words": _STAYS}) if _stays(row) else row


def _stays(row: GroupOffsetRow) -> bool:
    placed, first = row.target_offset, row.translated
    return row.left_out > 0 and placed is not None and first is not None and placed < first


def _left_out(answer: Answer | None, copies: Copies, log_start: int) -> int:
    """Offsets behind the group that the source still has, from before copying began by its rule;
    all of them while nobody knows where its log begins (-1).

    Some may be markers, or records that were aborted: the map knows what was copied only.
    """
    if answer is None or answer.found is not Found.BEFORE or answer.entry.start == FROM_THE_START:
        return 0
    first = copies.to_source(answer.other, answer.offset)
    return 0 if first is None else max(0, first.offset - max(answer.asked, log_start))


def _waiting(row: GroupOffsetRow, early: int) -> GroupOffsetRow:
    words = f"{row.words}; {count(early)} offsets before it are not copied yet"
    return row.model_copy(update={"uncopied": early, "words": words})


def _checked(row: GroupOffsetRow, sides: Sides) -> GroupOffsetRow:
    """A place in a topic that was deleted would be ahead in the one that has its name now."""
    for seen, side in zip(sides, Sides._fields, strict=True):
        if row.translated is not None and seen is Seen.GONE:
            gone = {"translated": None, "found": None, "words": _DELETED[side]}
            row = row.model_copy(update=gone)
        elif row.translated is not None and seen is Seen.UNSURE:
            words = f"{row.words}; not checked whether the {side} has this topic still"
            row = row.model_copy(update={"words": words})
    return row


def translation(answer: Answer, source: str, target: str, direction: str) -> Translation:
    """An answer of the offset map, with the sentence."""
    words = (
        f"Offset {count(answer.asked)} of {answer.partition} is offset {count(answer.offset)} of"
        f" {answer.other}: {_FOUND[answer.found]}. The copy is known up to source offset"
        f" {count(answer.copied_to)}. {answer.unchecked}"
    ).rstrip()
    return Translation(
        source=source,
        target=target,
        topic=answer.partition.topic,
        partition=answer.partition.partition,
        offset=answer.asked,
        direction=direction,
        other_topic=answer.other.topic,
        other_offset=answer.offset,
        found=answer.found,
        copied_to=answer.copied_to,
        unchecked=answer.unchecked,
        words=words,
    )


def _told(members: Sequence[str] | None) -> list[str] | None:
    return None if members is None else list(members)


def _offset_row(
    at: TopicPartition,
    offset: int,
    other: TopicPartition,
    answer: Answer | None,
    theirs: Offsets,
    map_words: str,
) -> GroupOffsetRow:
    there = theirs.get(other)
    now = None if there is None else there.offset
    return GroupOffsetRow(
        topic=at.topic,
        partition=at.partition,
        target_topic=other.topic,
        source_offset=offset,
        translated=None if answer is None else answer.offset,
        found=None if answer is None else answer.found,
        target_offset=now,
        words=_offset_words(answer, now, map_words),
    )


def _offset_words(answer: Answer | None, now: int | None, map_words: str) -> str:
    # ahead has several causes that look the same from here: the group read on there, it was set
    # back here, or its place was taken by retention there and we wrote the log start
    if answer is None and map_words:
        return _NO_MAP
    if answer is None:
        return "nothing of it is in the offset map yet, or no rule takes this group"
    if now is None:
        return "not set on the target"
    if now == answer.offset:
        place = "the same place as far as the map is read" if map_words else "in place"
        return f"{place}: {_FOUND[answer.found]}"
    far = count(abs(now - answer.offset))
    if now < answer.offset:
        return f"behind by {far}: a consumer would read these again"
    return f"ahead by {far}: a consumer would go on after these"


def _group_words(
    group: str, rows: Sequence[GroupOffsetRow], facts: GroupFacts, map_words: str
) -> tuple[str, str]:
    if group in facts.refused:
        return "unknown", facts.refused[group]
    if not rows:
        return "none", "it has no offset in a topic that this link copies"
    for side, words in _DELETED.items():
        deleted = sum(row.words == words for row in rows)
        if deleted:
            return "unknown", f"the {side}'s topic of {plural(deleted, 'partition')} was deleted"
    unset = sum(row.target_offset is None for row in rows)
    if unset == len(rows):
        return "not set", "no offset of it is set on the target"
    ahead = sum(_difference(row) > 0 for row in rows)
    behind = sum(_difference(row) < 0 for row in rows)
    if ahead:
        return "ahead", f"it is further on the target in {plural(ahead, 'partition')}"
    if behind:
        return "behind", _behind_words(behind, facts.target_states.get(group, NO_GROUP))
    if blind := _blind_words(rows, map_words):
        return "unknown", blind
    return _place_words(rows, unset)


def _place_words(rows: Sequence[GroupOffsetRow], unset: int) -> tuple[str, str]:
    """Of a group that stands nowhere else than the map says."""
    if early := sum(row.uncopied > 0 for row in rows):
        what = f"what it has read of {plural(early, 'partition')} is not all copied yet"
        return "not copied", f"{what}: a consumer over there would read that again"
    if late := sum(row.left_out > 0 for row in rows):
        what = f"copying began behind it in {plural(late, 'partition')}"
        return "partly", f"{what}: what it has not read from before that may not be over there"
    if unset:
        return "partly", f"{plural(unset, 'partition')} of {len(rows)} not set on the target"
    return "in place", "it can go on over there where it stands here"


_HELD: Final = ", or it stands at the source in what that has lost"


def _behind_words(behind: int, target_state: str) -> str:
    # checkpoint leaves a group alone that has members on the target, went there by itself, or
    # stands in what the source lost, and it alone knows that, as it remembers what it wrote
    where = f"it is further back on the target in {plural(behind, 'partition')}"
    if target_state not in _WITHOUT_MEMBERS:
        return f"{where}, and has members there: nothing is set"
    return f"{where}: checkpoint sets it unless its /status says why not{_HELD}"


def _blind_words(rows: Sequence[GroupOffsetRow], map_words: str) -> str:
    """Why nobody can say that the group is in place; "" when all is known that is set."""
    blind = sum(_is_blind(row) for row in rows)
    if blind:
        return f"the place of {plural(blind, 'partition')} is not known"
    return _NO_MAP if map_words else ""


def _is_blind(row: GroupOffsetRow) -> bool:
    # at 0 on both sides, as in a partition that never had a record, there is nothing to skip
    has_read = (row.source_offset, row.target_offset) != (0, 0)
    return row.translated is None and row.target_offset is not None and has_read


def _difference(row: GroupOffsetRow) -> int:
    if row.target_offset is None or row.translated is None or _stays(row):
        return 0
    return row.target_offset - row.translated
