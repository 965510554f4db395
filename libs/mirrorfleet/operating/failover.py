"""`failover`: whether groups that were stopped at home can go on at the target. Changes nothing.

    source ends -> newest progress -> offset map -> groups of both sides -> a verdict a group

In this order: what progress calls copied is in the map that is read after it, and what the source
had at the beginning is what must be copied. It is `checkpoint` that puts groups into their places,
within seconds; with the source away, they are where it put them last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.groups import GroupState
from mirrorfleet.kafka.offsets import LATEST, list_offsets, told
from mirrorfleet.mapping.asking import answering, copies_of, groups_of
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.mapping.group_asking import GroupAsker
from mirrorfleet.mapping.group_rows import Row
from mirrorfleet.mapping.last_checkpoints import ask_target
from mirrorfleet.mapping.standing import newest_progress
from mirrorfleet.offsets.homes import Activity
from mirrorfleet.operating.options import Drain
from mirrorfleet.records.overview import newest, shown
from mirrorfleet.records.progress import PartitionProgress
from mirrorfleet.views.format import plural
from mirrorfleet.views.groups import group_row, offset_rows
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName, PartitionIdentity
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.views.models import GroupOffsetRow, GroupRow

COLUMNS: Final = ("outcome", "group", "partitions", "not_copied", "topics", "words")
_ASK_S: Final = 15.0
_AGAIN_S: Final = 1.0
_IN_PLACE: Final = "in place"
_Told = Mapping["PartitionIdentity", PartitionProgress]
OpenSource = Callable[[], AbstractAsyncContextManager["Cluster"]]


class Outcome(StrEnum):
    """What to do with a group now."""

    READY = "ready"
    """Start it on the target."""
    AS_LAST_SEEN = "ready as last seen"
    """The same; its source does not tell where it stood in the end."""
    OVER = "works there"
    AT_WORK = "stop it"
    """It has members at home."""
    WAITS = "not ready"

    @property
    def is_ready(self) -> bool:
        """Whether nothing is left to wait for."""
        return self in {Outcome.READY, Outcome.AS_LAST_SEEN, Outcome.OVER}


@dataclass(frozen=True, slots=True)
class Takeover:
    """One group. `not_copied` are offsets of the partitions that it reads which the source has and
    the target lacks, None where nobody knows; `topics` are the copies that it goes on with.
    """

    outcome: Outcome
    group: str
    partitions: int
    not_copied: int | None
    topics: tuple[str, ...]
    words: str

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        return asdict(self) | {"outcome": str(self.outcome), "topics": list(self.topics)}


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is to move: `only` these groups, or all that the rules of the link take."""

    fleet: FleetName
    flow: Flow
    only: tuple[str, ...] = ()
    drain: Drain = Drain.READ


async def find_takeovers(
    open_source: OpenSource, target: Cluster, asked: Asked, clock: Clock
) -> list[Takeover]:
    """Each of these groups that has read what is copied; one that is named also where it has not.

    Raises: RefusedError when a name is no group that a rule takes, or the source is not the cluster
    that the catalog means; errors of the target, and of a source that answers and refuses.
    """
    async with answering(open_source) as source:
        why: MirrorfleetError
        if isinstance(source, MirrorfleetError):
            why = source
        else:
            try:
                return await _of_both(source, target, asked, clock)
            except MirrorfleetError as error:
                if not error.retriable:
                    raise
                why = error
    return await _of_target(target, asked, why)


async def wait_for(
    look: Callable[[], Awaitable[list[Takeover]]],
    clock: Clock,
    within_s: float,
    note: Callable[[str], None],
) -> list[Takeover]:
    """The first look at which all are ready, or the last one; `note` hears what is waited for.

    Raises: as `look`, where it does so at the end, or with no hope of another answer.
    """
    until, said = clock.monotonic() + within_s, ""
    while True:
        is_last = clock.monotonic() >= until
        try:
            found = await look()
            words = _waiting_words(found)
        except MirrorfleetError as error:
            if is_last or not error.retriable:
                raise
            words = str(error)
        else:
            if is_last or not words:
                return found
        if words != said:
            note(f"waiting: {words}")
        said = words
        await asyncio.sleep(min(_AGAIN_S, max(0.0, until - clock.monotonic())))


def _waiting_words(found: Iterable[Takeover]) -> str:
    waits = [one for one in found if not one.outcome.is_ready]
    if not waits:
        return ""
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"{waits[0].group}: {waits[0].words}{more}"


async def _of_both(source: Cluster, target: Cluster, asked: Asked, clock: Clock) -> list[Takeover]:
    flow = asked.flow
    view = await read_catalog(target, asked.fleet)
    view.known_link(flow.link, asked.fleet)
    view.check_source(flow.link.source, source.cluster_id, asked.fleet)
    wanted = {entry.source: LATEST for entry in shown(view.of_link(flow.link))}
    ends = told(await list_offsets(source, wanted, isolation=Isolation.READ_UNCOMMITTED))
    reported = await _reported(target, asked.fleet)
    copies = await copies_of(target, asked.fleet, flow, view, clock)

    def choose(states: Mapping[str, str]) -> list[str]:
        return groups_of(source, flow, states, asked.only)

    facts = await GroupAsker(source, target, clock, _ASK_S).page(choose, copies)
    facts = replace(
        facts,
        copied={at: one.next_source for at, one in reported.items()},
        log_starts={at: one.log_start for at, one in reported.items()},
    )
    found: list[Takeover] = []
    for group in choose(facts.source_states):
        row = group_row(group, flow, facts, copies, map_words="")
        offsets = offset_rows(group, flow, facts, copies, map_words="")
        entries = [copies.by_source(TopicPartition(one.topic, one.partition)) for one in offsets]
        left = _left([entry for entry in entries if entry is not None], reported, ends)
        if offsets or group in asked.only:
            found.append(judged(row, offsets, left, asked.drain))
    return found


async def _reported(target: Cluster, fleet: FleetName) -> _Told:
    """The newest word on each partition."""
    found = newest(await newest_progress(target, fleet))
    return {at: one.partition for at, one in found.items()}


def _left(
    entries: Iterable[CatalogPartition], reported: _Told, ends: Mapping[TopicPartition, int]
) -> int | None:
    """Offsets of these partitions below the ends that are not copied; None where nobody knows."""
    left = 0
    for entry in entries:
        one, end = reported.get(entry.identity), ends.get(entry.source)
        if one is None or one.position is None or end is None:
            return None
        left += max(0, end - one.position)
    return left


def judged(
    row: GroupRow, offsets: Sequence[GroupOffsetRow], left: int | None, drain: Drain
) -> Takeover:
    """The verdict on a group whose source answers. Members at home come first: it reads on."""
    outcome, words = Outcome.WAITS, row.words
    if _is_active(row.source_state):
        outcome, words = Outcome.AT_WORK, "it has members at home, and reads on"
    elif _is_active(row.target_state):
        outcome, words = Outcome.OVER, "it has members there"
    elif row.verdict == _IN_PLACE and (drain is Drain.READ or left == 0):
        outcome = Outcome.READY
    elif row.verdict == _IN_PLACE:
        words = f"{'some' if left is None else left} offsets of its topics are not copied yet"
    topics = tuple(sorted({one.target_topic for one in offsets}))
    return Takeover(outcome, row.group, len(offsets), left, topics, words)


def _is_active(state: object) -> bool:
    return GroupState(str(state)).activity is Activity.ACTIVE


async def _of_target(target: Cluster, asked: Asked, why: MirrorfleetError) -> list[Takeover]:
    """From the target alone, where every group is as its last checkpoint says."""
    said = f"{asked.flow.link.source} was not asked: {why.message.rstrip('.')}"
    rows: dict[str, list[Row]] = {}
    for row in await ask_target(target, asked.fleet, asked.flow, why=said, only=asked.only):
        rows.setdefault(str(row["group"]), []).append(row)
    reported = await _reported(target, asked.fleet)
    view = await read_catalog(target, asked.fleet)
    ends = {at: each.last_stable for at, each in reported.items() if each.last_stable >= 0}
    known = {
        (one.source_topic, one.identity.partition): one
        for one in shown(view.of_link(asked.flow.link))
    }
    found: list[Takeover] = []
    for group, mine in sorted(rows.items()):
        entries = [known[key] for row in mine if (key := (row["topic"], row["partition"])) in known]
        last = {entry.source: ends[entry.identity] for entry in entries if entry.identity in ends}
        found.append(as_last_seen(group, mine, _left(entries, reported, last)))
    return found


def as_last_seen(group: str, rows: Sequence[Row], left: int | None) -> Takeover:
    """The verdict on a group whose source does not answer; `left` is as its owners last knew."""
    refused = sorted({str(row["refused"]) for row in rows if row["refused"]})
    unset = [row for row in rows if row["target_offset"] is None]
    said = sorted({str(row["unchecked"]) for row in rows})
    if elsewhere := sum(row["target_offset"] != row["translated"] for row in rows):
        said.append(f"{plural(elsewhere, 'partition')} not where that says")
    outcome, words = Outcome.AS_LAST_SEEN, "; ".join(said)
    if refused:
        outcome, words = Outcome.WAITS, "; ".join(refused)
    elif any(_is_active(row["target_state"]) for row in rows):
        outcome, words = Outcome.OVER, "it has members there"
    elif unset:
        outcome, words = (
            Outcome.WAITS,
            f"no offset of it is set in {plural(len(unset), 'partition')}",
        )
    topics = tuple(sorted({str(row["target_topic"]) for row in rows}))
    return Takeover(outcome, group, len(rows), left, topics, words)
