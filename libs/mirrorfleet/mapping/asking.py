"""Questions of people to the offset map: one offset, a group, all groups of a link.

Answers come from the control topics and both clusters alone, so they work without any service.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.core.ids import FleetName, Link, SlotNumber, TopicPartition
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import fetch_offsets, list_groups, state_of
from mirrorfleet.mapping.catalog import CatalogView, read_catalog
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.group_rows import Found, Row, Side, group_rows
from mirrorfleet.mapping.last_checkpoints import ask_target, last_points, point_rows
from mirrorfleet.mapping.live import checked, sides_seen, source_checked, start_checked
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.offsets.homes import entries_of, is_copied_for, wanted_groups
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.checkpoint import Checkpoint

MOST_OFFSET: Final = 2**63 - 1
_NUMBER: Final = re.compile("[0-9]{1,10}")


class Direction(StrEnum):
    """Which way an offset is translated."""

    TO_TARGET = "to-target"
    TO_SOURCE = "to-source"


Columns = Sequence[str]
_Points = Sequence[tuple[Checkpoint, int]]


def parse_partition(text: str, copied: Collection[TopicPartition] = ()) -> TopicPartition:
    """TOPIC-PARTITION; partition 0 for a TOPIC alone, which is enough for a question.

    A topic may end like a partition: it is meant where of both it alone is `copied`.
    """
    topic, _, number = text.rpartition("-")
    alone = TopicPartition(text, 0)
    if not (topic and _NUMBER.fullmatch(number)):
        return alone
    found = TopicPartition(topic, int(number))
    return alone if alone in copied and found not in copied else found


def named(entries: Iterable[CatalogPartition], text: str) -> list[CatalogPartition]:
    """What of these is TOPIC, or TOPIC-PARTITION, of the source; a topic whose name is all of it
    wins.
    """
    entries = list(entries)
    whole = [entry for entry in entries if entry.source_topic == text]
    return whole or [entry for entry in entries if str(entry.source) == text]


def stated_partition(text: str) -> TopicPartition:
    """TOPIC-PARTITION of what is to be changed. Raises: RefusedError for a TOPIC alone."""
    at = parse_partition(text)
    if at.topic == text:
        raise RefusedError(
            f"{text!r} names no partition.", hint=f"Name one, as {text}-0; each is resolved alone."
        )
    return at


def translate(copies: Copies, at: TopicPartition, offset: int, direction: Direction) -> Answer:
    """The answer for one offset.

    Raises: RefusedError when it is no offset, or the partition is not copied.
    """
    if not 0 <= offset <= MOST_OFFSET:
        raise RefusedError(f"{offset} is no offset.", hint=f"Offsets go from 0 to {MOST_OFFSET}.")
    if direction is Direction.TO_TARGET:
        entry, answer = copies.by_source(at), copies.to_target(at, offset)
    else:
        entry, answer = copies.by_target(at), copies.to_source(at, offset)
    if entry is None:
        side = "source" if direction is Direction.TO_TARGET else "target"
        raise RefusedError(f"no {side} partition {at} is copied by this link.", hint=_names(copies))
    if answer is None:
        raise RefusedError(f"nothing of {at} is copied yet.", hint="See: mirrorfleet status.")
    return answer


def _names(copies: Copies) -> str:
    some = sorted({entry.source_topic for entry in copies})[:5]
    return f"It copies {', '.join(some)}{' ...' if len(some) == 5 else ''}." if some else ""


async def load_map(
    target: Cluster, fleet: FleetName, slots: Iterable[SlotNumber], clock: Clock
) -> MapFollower:
    """The map of some slots as it is now. Raises: as `MapFollower.follow`."""
    store = KafkaMapStore(target, fleet, clock)
    follower = MapFollower(target, fleet, store)
    try:
        follower.want(slots)
        await follower.catch_up()
    finally:
        follower.close()
        store.close()
    return follower


async def ask_offset(
    target: Cluster,
    fleet: FleetName,
    link: Link,
    where: str,
    offset: int,
    direction: Direction,
    clock: Clock,
) -> Answer:
    """One offset, from the control topics, `where` as `parse_partition`; `confirmed` is left to do.
    One of the target's is also looked for in the log there.

    Raises: as `translate`, `load_map` and `checked`.
    """
    view = await read_catalog(target, fleet)
    of_link = view.of_link(link)
    back = direction is Direction.TO_SOURCE
    at = parse_partition(where, {entry.target if back else entry.source for entry in of_link})
    mine = [
        entry
        for entry in of_link
        if at.topic in (entry.source_topic, entry.target_topic)
        and entry.identity.partition == at.partition
    ]
    follower = await load_map(target, fleet, {entry.slot for entry in mine}, clock)
    copies = Copies(mine or of_link, follower.index, view.losses)
    answer = translate(copies, at, offset, direction)
    told = await checked(target, answer)
    return told if back or told != answer else await start_checked(target, told)


async def confirmed(
    open_source: Callable[[], Cluster], answer: Answer, direction: Direction
) -> Answer:
    """As `source_checked`, by a client that is closed again; an offset of a source that confirms it
    is also looked for in the log there.

    Without the source's secrets, too: who is at the target, and in a hurry, may not have them.
    """
    try:
        source = open_source()
    except ConfigError:
        return await source_checked(None, answer)
    try:
        told = await source_checked(source, answer)
        is_told = direction is Direction.TO_SOURCE and told == answer
        return await start_checked(source, told) if is_told else told
    finally:
        await source.close()


@asynccontextmanager
async def answering(
    open_source: Callable[[], AbstractAsyncContextManager[Cluster]],
) -> AsyncIterator[Cluster | MirrorfleetError]:
    """The source; why not where it is away, refuses the login, or we lack its secrets, as for
    `confirmed`.

    Raises: any other MirrorfleetError.
    """
    async with AsyncExitStack() as stack:
        source: Cluster | MirrorfleetError
        try:
            source = await stack.enter_async_context(open_source())
        except MirrorfleetError as error:
            source = _away(error)
        yield source


def _away(error: MirrorfleetError) -> MirrorfleetError:
    """What keeps us from asking a source of which the target knows. Raises: any other error."""
    if not (error.retriable or isinstance(error, (ConfigError, AuthenticationError))):
        raise error
    return error


async def ask_groups(
    source: Cluster | MirrorfleetError,
    target: Cluster,
    fleet: FleetName,
    flow: Flow,
    clock: Clock,
    *,
    only: str | None = None,
) -> list[Row]:
    """Each offset of each group of a link: both sides, and what it is over there.

    Groups are those that the source lists, and those that have checkpoints: brokers that are left
    list none whose coordinator is lost. `refused` says which cluster did not answer for the group;
    one whose offsets the source does not tell is as its checkpoints say, or one row without any. It
    also says why an offset has no translation: one of both topics was deleted. `unchecked` says
    where nobody knows that. Without a source (`answering`), or where what is left of it does not
    tell its groups, or it is not the cluster that the catalog means, the rows are of `ask_target`.

    Raises: RefusedError when the catalog has no such link, or `only` is no group of it; why there
    is no source where the target has no row either; errors of both clusters.
    """
    if isinstance(source, MirrorfleetError):
        return await _without_source(target, fleet, flow, only, source)
    points = await last_points(target, flow, unread={})  # most groups are told of without it
    found = await _groups_at(source, flow, {point.group for point, _ in points}, only)
    if isinstance(found, MirrorfleetError):
        return await _without_source(target, fleet, flow, only, found)
    view = await read_catalog(target, fleet)
    try:
        view.check_source(flow.link.source, source.cluster_id, fleet)
    except RefusedError as other:
        return await _without_source(target, fleet, flow, only, other)
    groups_of(source, flow, found.committed, () if only is None else (only,))
    copies = await copies_of(target, fleet, flow, view, clock)
    return await _rows_of_both((source, target), flow, copies, found, points)


async def _without_source(
    target: Cluster, fleet: FleetName, flow: Flow, only: str | None, error: MirrorfleetError
) -> list[Row]:
    """As `ask_target`. Raises: the error where there would be a row if there were groups."""
    why = _why_without(flow.link.source, error)
    rows = await ask_target(target, fleet, flow, why=why, only=() if only is None else (only,))
    if not rows and any(rule.groups.include for rule in flow.rules):
        raise error
    return rows


def _why_without(source: str, error: MirrorfleetError) -> str:
    said = error.message.rstrip(".")
    match error:
        case RefusedError():
            return said
        case AuthenticationError():
            return f"login refused at {source}: {said}"
        case ConfigError():
            return f"{source} was not asked: {said}"
        case BrokerError():
            return f"{source} does not tell its groups: {error.code.name}"
    return f"{source} does not answer"


async def _rows_of_both(
    clusters: tuple[Cluster, Cluster], flow: Flow, copies: Copies, found: Found, points: _Points
) -> list[Row]:
    """Source and target. A group whose offsets the source does not tell now is as its checkpoints
    say. Raises: errors of both clusters.
    """
    source, target = clusters
    there = await list_groups(target, any_protocol=True)
    # a group that the target hides from us is not listed there: only an answer tells it from none
    set_there = await fetch_offsets(target, list(found.committed))
    told = (one for one in found.committed.values() if not isinstance(one, BrokerError))
    seen = await sides_seen(source, target, entries_of(told, copies))
    untold: dict[str, list[Row]] = {}
    if whys := found.untold(flow):
        mine = [p for p in points if is_copied_for(p[0].group, p[0].partition, copies, flow)]
        for row in await point_rows(target, copies, mine, whys):
            untold.setdefault(str(row["group"]), []).append(row)
    rows: list[Row] = []
    for group, offsets in sorted(found.committed.items()):
        here = Side(found.state(group), offsets)
        sides = here, Side(state_of(there, group), set_there[group])
        rows += untold.get(group) or group_rows(group, flow, copies, sides, seen)
    return rows


async def _groups_at(
    source: Cluster, flow: Flow, known: Collection[str], only: str | None
) -> Found | MirrorfleetError:
    """The groups of a source, `known` ones too, and the offsets of those that are asked about; why
    not where it is half away: a broker that is left lets us in, and lists others that are not.

    A group that is not listed may be without its coordinator: only an answer says that it is gone.

    Raises: as `_away`.
    """
    try:
        listed = await list_groups(source)
        names = wanted_groups(flow, {*listed, *known} if only is None else (only,))
        answers = await fetch_offsets(source, names)
    except MirrorfleetError as error:
        return _away(error)
    there = {
        group: one
        for group, one in answers.items()
        if group in listed or isinstance(one, BrokerError) or (one and group in known)
    }
    return Found(listed, there)


def groups_of(
    cluster: Cluster, flow: Flow, listed: Iterable[str], only: Collection[str]
) -> list[str]:
    """The groups of a cluster that the rules take, or these of them.

    Raises: RefusedError when one of `only` is none.
    """
    groups = wanted_groups(flow, listed)
    unknown = sorted(set(only).difference(groups))
    if unknown:
        raise RefusedError(
            f"{flow.link}: {unknown[0]!r} is no group of {cluster.name} that a rule takes.",
            hint=f"See: mirrorfleet groups --target {flow.link.target}",
        )
    return [group for group in groups if group in only] if only else groups


async def copies_of(
    target: Cluster, fleet: FleetName, flow: Flow, view: CatalogView, clock: Clock
) -> Copies:
    """What a link copies, with the map of it as it is now.

    Raises: RefusedError when the catalog has no such link; as `load_map`.
    """
    view.known_link(flow.link, fleet)
    entries = view.of_link(flow.link)
    follower = await load_map(target, fleet, {entry.slot for entry in entries}, clock)
    return Copies(entries, follower.index, view.losses)


OFFSET_COLUMNS: Final[Columns] = (
    "link",
    "topic",
    "partition",
    "offset",
    "other_topic",
    "other_offset",
    "found",
    "copied_to",
    "unchecked",
)
