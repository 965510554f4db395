"""Groups of a source that is away: what its last checkpoints say, and where the target has them.

It is when a region is lost that somebody asks where its readers go on.
"""

from __future__ import annotations

from typing import Final

from mirrorfleet.core.errors import BrokerError, RefusedError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import (
    GroupOffsets,
    GroupState,
    fetch_offsets,
    list_groups,
    state_of,
)
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


async def ask_target(
    target: Cluster, fleet: FleetName, flow: Flow, *, only: str | None = None
) -> list[dict[str, object]]:
    """Rows as of `asking.ask_groups`; `unchecked` says as of when the source's side is.

    Raises: RefusedError when the catalog has no such link, or `only` has no checkpoint; errors of
    the target.
    """
    view = await read_catalog(target, fleet)
    view.known_link(flow.link, fleet)
    copies = {entry.target: entry for entry in view.of_link(flow.link)}
    points = await _points(target, flow)
    groups = wanted_groups(flow, {point.group for point, _ in points})
    if only is not None:
        groups = [group for group in groups if group == only]
        if not groups:
            hint = f"{flow.link.source} does not answer, so only these are known."
            raise RefusedError(f"{flow.link}: group {only!r} has no checkpoint.", hint=hint)
    there = await list_groups(target, any_protocol=True)
    set_there = await fetch_offsets(target, groups)
    seen = await targets_seen(target, copies.values())
    rows: list[dict[str, object]] = []
    for point, time_ms in points:
        entry, theirs = copies.get(point.partition), set_there.get(point.group)
        if entry is None or theirs is None:
            continue
        row = _row(point, entry, theirs, seen[entry.identity])
        as_of = f"{flow.link.source} does not answer; {_as_of_words(time_ms)}"
        rows.append(row | {"target_state": str(state_of(there, point.group)), "unchecked": as_of})
    return rows


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


async def _points(target: Cluster, flow: Flow) -> list[tuple[Checkpoint, int]]:
    """The last checkpoint of each group in each partition, and when it was written, in order."""
    newest: dict[tuple[str, TopicPartition], tuple[Checkpoint, int]] = {}

    def take(record: Record) -> None:
        found = checkpoint.decode(record.key, record.value)
        if isinstance(found, Checkpoint):
            newest[found.group, found.partition] = found, record.timestamp

    await read_control(target, checkpoint.topic_name(flow.link.source), take)
    return [newest[key] for key in sorted(newest)]
