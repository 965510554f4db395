"""Where a group that has read copies on the target goes on at home: pure.

    target offset that is its own  ->  the first copied record it has not read  ->  source offset

Only of partitions in which it has read: what `checkpoint` wrote for it is no progress (`homes`),
and an offset that its place at home leads to is none either. Where it has no place at home, what
`checkpoint` wrote is all there is: see `left_there`. It is never set back. What was not copied by
rule or by decision, among what it has read on the target, it is not given at home either: that is
in the ledger. An offset from before the target lost its tail is read by the map of now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.ids import PartitionIdentity, TopicPartition
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.offsets.homes import (
    GroupOffset,
    Written,
    answer_back,
    is_copied_for,
    own_progress,
)
from mirrorfleet.offsets.index import Found
from mirrorfleet.policy.flows import Flow

_NOTHING: Final[Written] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """One partition: `answer` leads from the target to the source, where the group `stands`.

    `start` is where the source's log begins: what is below cannot be read. `began` is where
    `checkpoint` had put the group on the target, where the log of that begins there or behind: it
    may have begun behind the group. A lower begin disproves that, as begins only go forward.
    """

    answer: Answer
    metadata: str
    stands: int | None
    start: int = 0
    began: int = 0

    @property
    def goes_on(self) -> int:
        """The next source offset to read."""
        return max(self.answer.offset, self.start)

    @property
    def is_due(self) -> bool:
        """Whether it is to be set."""
        return self.stands is None or self.stands < self.goes_on

    @property
    def wanted(self) -> GroupOffset:
        """What is to be set."""
        return GroupOffset(self.goes_on, self.metadata)


def left_there(
    there: Mapping[TopicPartition, GroupOffset],
    written: Written,
    home: Mapping[TopicPartition, GroupOffset],
    copies: Copies,
    gone: Collection[PartitionIdentity] = (),
) -> dict[TopicPartition, GroupOffset]:
    """Its own offsets on the target, and what `checkpoint` wrote where it has none at home.

    The source forgets an offset of a group that is away for long (offsets.retention.minutes), and
    all of them when it is lost. Then the exact place is on the target alone. In a topic that is
    `gone` there is none to go home to, and nobody is kept for it.
    """

    def has_none(at: TopicPartition) -> bool:
        entry = copies.by_target(at)
        return entry is not None and entry.source not in home and entry.identity not in gone

    own = own_progress(there, written)
    return own | {at: now for at, now in there.items() if has_none(at)}


def places_at_home(
    group: str,
    own: Mapping[TopicPartition, GroupOffset],
    home: Mapping[TopicPartition, GroupOffset],
    copies: Copies,
    flow: Flow,
    written: Written = _NOTHING,
) -> list[Place]:
    """By its offsets on the target that count and those at home; what this link copies for it."""
    found = []
    for at, now in sorted(own.items()):
        answer = answer_back(group, at, now.offset, copies, flow)
        if answer is None:
            continue
        stands = offset_at(home, answer.other)
        if stands is None or not _leads_to(copies, answer.other, stands, now.offset):
            began = next(iter(written.get(at, ())), 0)
            found.append(Place(answer, now.metadata, stands, began=began))
    return found


def offset_at(offsets: Mapping[TopicPartition, GroupOffset], at: TopicPartition) -> int | None:
    """Where a group stands in a partition; None where it has no offset."""
    found = offsets.get(at)
    return None if found is None else found.offset


def _leads_to(copies: Copies, home: TopicPartition, stands: int, offset: int) -> bool:
    """Whether it has read nothing on the target beyond where it stands at home."""
    copy = copies.to_target(home, stands)
    return copy is not None and copy.offset >= offset


def unmapped(
    group: str, own: Mapping[TopicPartition, GroupOffset], copies: Copies, flow: Flow
) -> str:
    """Why one of its offsets has no place at home, as in a copy that began anew; "" if each has."""
    for at, now in sorted(own.items()):
        is_known = copies.to_source(at, now.offset) is not None
        if now.offset and not is_known and is_copied_for(group, at, copies, flow):
            return f"{at}: it stands at {now.offset}, and the map has no record of this copy yet"
    return ""


def unread(place: Place, copies: Copies) -> str:
    """Why nobody can say where the group goes on; "" when that is known.

    What is below the begin of the log at home nobody can read, and between two histories
    (`lineage`) lies nothing: only the begin of all that was copied is in doubt.
    """
    answer, home = place.answer, place.answer.other
    if place.start < answer.offset and _is_first(answer, copies.to_source(answer.partition, 0)):
        return f"{answer.partition}: {answer.asked} is before the first record that was copied"
    if place.stands is None:
        return ""
    copy = copies.to_target(home, max(place.stands, place.start))
    why = ""
    if copy is not None and _is_first(copy, copies.to_target(home, 0)):
        why = "copying began behind it"
    elif copy is not None and copy.offset < place.began:
        why = f"on the target it began behind that, at {place.began}"
    if not why:
        return ""
    return (
        f"{home}: it stood at {place.stands}, and {why}: what lies between it has read on neither"
        " side"
    )


def _is_first(answer: Answer, first: Answer | None) -> bool:
    """Whether it leads to the first record that was ever copied, from before it."""
    return answer.found is Found.BEFORE and first is not None and answer.offset <= first.offset
