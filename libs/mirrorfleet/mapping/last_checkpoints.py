"""Groups of a source that is away: what its last checkpoints say, and where the target has them.

It is when a region is lost that somebody asks where its readers go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import (
    GroupOffsets,
    GroupState,
    fetch_offsets,
    list_groups,
    state_of,
)
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets, told
from mirrorfleet.mapping.catalog import read_catalog, read_control
from mirrorfleet.mapping.live import side_words, targets_seen
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import wanted_groups
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records import checkpoint
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.views.format import moment
from mirrorfleet.wire.records import NO_TIME, Record

FOUND: Final = "checkpoint"
"""How the translation was found: `checkpoint` made it then, and it is not made again now."""
_STARTS_S: Final = 3.0
"""For the target to say where its logs begin: a partition may have no leader."""


async def ask_target(
    target: Cluster, fleet: FleetName, flow: Flow, *, why: str, only: Collection[str] = ()
) -> list[dict[str, object]]:
    """Rows as of `asking.ask_groups`; `unchecked` says `why` it is not the source's answer, as of
    when its side is, and where a group's place is below the begin of the target's log.

    Raises: RefusedError when the catalog has no such link, or one of `only` has no checkpoint;
    errors of the target.
    """
    view = await read_catalog(target, fleet)
    view.known_link(flow.link, fleet)
    points = await last_points(target, flow)
    groups = wanted_groups(flow, {point.group for point, _ in points})
    if only:
        if unknown := sorted(set(only).difference(groups)):
            hint = f"{why}, so only these are known."
            raise RefusedError(f"{flow.link}: group {unknown[0]!r} has no checkpoint.", hint=hint)
        groups = [group for group in groups if group in only]
    return await point_rows(target, view.of_link(flow.link), points, dict.fromkeys(groups, why))


async def point_rows(
    target: Cluster,
    entries: Iterable[CatalogPartition],
    points: Iterable[tuple[Checkpoint, int]],
    whys: Mapping[str, str],
) -> list[dict[str, object]]:
    """The rows of `ask_target` for these groups, each with why it is not the source's answer.

    Raises: errors of the target.
    """
    copies = {entry.target: entry for entry in entries}
    there = await list_groups(target, any_protocol=True)
    set_there = await fetch_offsets(target, list(whys))
    seen = await targets_seen(target, copies.values())
    asked = {point.partition for point, _ in points if point.group in set_there}
    starts = await starts_of(
        target, {at for at in asked & copies.keys() if seen[copies[at].identity] is Seen.THERE}
    )
    rows: list[dict[str, object]] = []
    for point, time_ms in points:
        entry, theirs = copies.get(point.partition), set_there.get(point.group)
        if entry is None or theirs is None:
            continue
        row = _row(point, entry, theirs, seen[entry.identity])
        said = [whys[point.group], _as_of_words(time_ms)]
        if point.partition in starts:
            said += _start_words(target.name, starts[point.partition], point, theirs)
        unchecked = "; ".join(said)
        rows.append(
            row | {"target_state": str(state_of(there, point.group)), "unchecked": unchecked}
        )
    return rows


async def starts_of(
    target: Cluster, wanted: AbstractSet[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Where logs begin; None where nobody said. Raises: as `list_offsets`, but DeadlineError."""
    try:
        listed = await list_offsets(target, dict.fromkeys(wanted, EARLIEST), deadline_s=_STARTS_S)
    except DeadlineError:
        listed = {}
    known = told(listed)
    return {at: known.get(at) for at in wanted}


def _start_words(
    alias: str, start: int | None, point: Checkpoint, theirs: GroupOffsets | BrokerError
) -> list[str]:
    """Why a place is none, or nobody knows; of a group that has no offset there the next one."""
    if start is None:
        return [f"{alias} did not say where its log begins"]
    now = None if isinstance(theirs, BrokerError) else theirs.get(point.partition)
    place = point.target if now is None else now.offset
    if place >= start:
        return []
    return [f"{alias}'s log begins at {start}: what was before is not there any more"]


def _as_of_words(time_ms: int) -> str:
    """A writer whose clock the broker did not believe leaves no time."""
    return "nobody knows as of when" if time_ms == NO_TIME else f"as of {moment(time_ms)} UTC"


def _row(
    point: Checkpoint, entry: CatalogPartition, theirs: GroupOffsets | BrokerError, copy: Seen
) -> dict[str, object]:
    gone, _ = side_words(entry, Sides(Seen.THERE, copy))
    refused, now = gone, None
    if isinstance(theirs, BrokerError):
        refused = f"{entry.link.target}: {theirs.code.name}"
    else:
        now = theirs.get(point.partition)
    return {
        "group": point.group,
        "topic": entry.source_topic,
        "partition": point.partition.partition,
        "source_offset": point.source,
        "target_topic": point.partition.topic,
        "translated": None if gone else point.target,
        "found": None if gone else FOUND,
        "target_offset": None if now is None else now.offset,
        "source_state": str(GroupState.UNKNOWN),
        "refused": refused or None,
    }


async def last_points(
    target: Cluster, flow: Flow, *, unread: dict[int, MirrorfleetError] | None = None
) -> list[tuple[Checkpoint, int]]:
    """The last checkpoint of each group in each partition, in order, and when the first that has
    its source offset was written: `checkpoint` writes others while the source is away.

    `unread` and what it raises: as `read_control`.
    """
    newest: dict[tuple[str, TopicPartition], tuple[Checkpoint, int]] = {}

    def take(record: Record) -> None:
        found = checkpoint.decode(record.key, record.value)
        if isinstance(found, Checkpoint):
            key = (found.group, found.partition)
            last, time_ms = newest.get(key, (None, NO_TIME))
            is_same = last is not None and last.source == found.source
            newest[key] = found, time_ms if is_same else record.timestamp

    await read_control(target, checkpoint.topic_name(flow.link.source), take, unread=unread)
    return [newest[key] for key in sorted(newest)]
