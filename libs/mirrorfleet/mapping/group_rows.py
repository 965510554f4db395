"""Rows of groups as `groups` prints them, from what both clusters said. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import PartitionIdentity
from mirrorfleet.kafka.each import Results
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.mapping.live import side_words
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.offsets.floors import Sides
from mirrorfleet.offsets.homes import GroupOffset, answer_for, is_copied_for
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.catalog import CatalogPartition

Row = dict[str, object]
_Seen = Mapping[PartitionIdentity, Sides]
GROUP_COLUMNS: Final[Sequence[str]] = (
    "group",
    "topic",
    "partition",
    "source_offset",
    "translated",
    "found",
    "target_offset",
    "source_state",
    "target_state",
    "refused",
    "unchecked",
)


class Side(NamedTuple):
    """A group on one cluster; an error where that does not answer for its offsets."""

    state: GroupState
    offsets: GroupOffsets | BrokerError


class Found(NamedTuple):
    """Groups of a source as it lists them, and what it answers for each that is asked about."""

    listed: Mapping[str, ListedGroup]
    committed: Results[str, GroupOffsets]

    def state(self, group: str) -> GroupState:
        """One that has an answer and is not listed is not known to be dead."""
        return self.listed[group].state if group in self.listed else GroupState.UNKNOWN

    def untold(self, flow: Flow) -> dict[str, str]:
        """Groups whose offsets the source does not tell now, or never listed, and why."""
        return {
            group: f"{flow.link.source} does not tell its offsets: {one.code.name}"
            for group, one in self.committed.items()
            if isinstance(one, BrokerError) and (one.retriable or group not in self.listed)
        }


def group_rows(
    group: str, flow: Flow, copies: Copies, sides: tuple[Side, Side], seen: _Seen
) -> list[Row]:
    """A row an offset; one without any where the source does not tell them."""
    source, target = sides
    refusals = {
        alias: side.offsets.code.name
        for alias, side in zip(flow.link, sides, strict=True)
        if isinstance(side.offsets, BrokerError)
    }
    same: Row = {
        "group": group,
        "source_state": str(source.state),
        "target_state": str(target.state),
        "refused": "; ".join(f"{alias}: {code}" for alias, code in refusals.items()) or None,
    }
    if isinstance(source.offsets, BrokerError):
        return [dict.fromkeys(GROUP_COLUMNS, None) | same]
    theirs = {} if isinstance(target.offsets, BrokerError) else target.offsets
    rows: list[Row] = []
    for at, now in sorted(source.offsets.items()):
        entry = copies.by_source(at)
        if entry is None or not is_copied_for(group, entry.target, copies, flow):
            continue
        answer = answer_for(group, at, now.offset, copies, flow)
        row = same | _row(entry, now.offset, answer, theirs.get(entry.target))
        if answer is None:
            rows.append(row | {"unchecked": "nothing of it is in the offset map yet"})
        else:
            rows.append(_row_checked(row, entry, seen[entry.identity]))
    return rows


def _row_checked(row: Row, entry: CatalogPartition, sides: Sides) -> Row:
    gone, unsure = side_words(entry, sides)
    if gone:
        said = "; ".join(str(one) for one in (row["refused"], gone) if one)
        return row | {"translated": None, "found": None, "refused": said}
    return row | {"unchecked": unsure or None}


def _row(
    entry: CatalogPartition, asked: int, answer: Answer | None, there: GroupOffset | None
) -> Row:
    return {
        "topic": entry.source_topic,
        "partition": entry.identity.partition,
        "source_offset": asked,
        "target_topic": entry.target_topic,
        "translated": None if answer is None else answer.offset,
        "found": None if answer is None else str(answer.found),
        "target_offset": None if there is None else there.offset,
        "unchecked": None,
    }
