"""Where every partition of a fleet stands: the catalog and the newest progress, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mirrorfleet.core.ids import PartitionIdentity, SlotNumber
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.progress import UNREACHABLE, PartitionProgress, Progress

STALE_MS: Final = 10_000
"""Owners report once a second; after ten missed reports nobody is at work."""
STUCK_MS: Final = 30_000
"""Records wait and nothing was copied for so long: stuck. A transaction lasts 5 s at most."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What an owner last said of a partition."""

    snapshot: Progress
    partition: PartitionProgress


def fleet_rows(
    entries: Iterable[CatalogPartition],
    snapshots: Iterable[Progress],
    now_ms: int,
    unread: Mapping[SlotNumber, str] = MappingProxyType({}),
) -> list[dict[str, object]]:
    """One row a partition that is not removed, by link, topic and partition.

    `problem` says why a person should look, None when all is well. `lag_records` is None where the
    owner is silent: how far the source went since its last report is not known. `unread`: why the
    progress of a slot cannot be read; its owner may be at work.
    """
    told = sorted(snapshots, key=lambda one: one.time_ms)
    reported, by_slot = newest(told), {snapshot.slot: snapshot for snapshot in told}
    rows: list[dict[str, object]] = []
    for entry in shown(entries):
        row = _row(entry, reported.get(entry.identity), by_slot.get(entry.slot), now_ms)
        if (why := unread.get(entry.slot)) is not None:
            row["problem"] = f"the progress of slot {entry.slot} cannot be read: {why}"
        rows.append(row)
    return rows


def newest(snapshots: Iterable[Progress]) -> dict[PartitionIdentity, Reported]:
    """The newest word on each partition, whichever slot it was in."""
    return {
        partition.identity: Reported(snapshot, partition)
        for snapshot in sorted(snapshots, key=lambda one: one.time_ms)
        for partition in snapshot.partitions
    }


def shown(entries: Iterable[CatalogPartition]) -> list[CatalogPartition]:
    """Those that have a row, in the order of the rows."""
    wanted = [entry for entry in entries if entry.state is not CatalogState.REMOVED]
    wanted.sort(key=lambda entry: (entry.link, entry.source_topic, entry.identity.partition))
    return wanted


def _row(
    entry: CatalogPartition, seen: Reported | None, of_slot: Progress | None, now_ms: int
) -> dict[str, object]:
    said = of_slot if seen is None else seen.snapshot
    known = None if seen is None else seen.partition
    read = known is not None and known.high_watermark >= 0
    return {
        "link": str(entry.link),
        "topic": entry.source_topic,
        "partition": entry.identity.partition,
        "target_topic": entry.target_topic,
        "state": entry.state if known is None else known.state,
        "position": None if known is None else known.position,
        "high_watermark": known.high_watermark if known is not None and read else None,
        "lag_records": None if known is None or is_silent(said, now_ms) else known.lag_records,
        "slot": entry.slot,
        "owner": None if said is None else said.owner,
        "progress_age_ms": None if known is None else max(0, now_ms - known.last_progress_ms),
        "reported_ms_ago": None if said is None else max(0, now_ms - said.time_ms),
        "fault": None if known is None else known.fault or None,
        "rule": entry.rule,
        "priority": entry.priority,
        "problem": _problem(entry, seen, of_slot, now_ms),
    }


def is_silent(said: Progress | None, now_ms: int) -> bool:
    """Whether an owner that has reported does so no longer."""
    return said is not None and now_ms - said.time_ms > STALE_MS


def why_untaken(of_slot: Progress | None, now_ms: int) -> str:
    """Why a slot is not copied, by the newest word of an owner that still speaks; "" if it is."""
    if of_slot is None or is_silent(of_slot, now_ms) or not of_slot.trouble:
        return ""
    return f"slot {of_slot.slot} is not copied: {of_slot.trouble}"


def _problem(
    entry: CatalogPartition, seen: Reported | None, of_slot: Progress | None, now_ms: int
) -> str | None:
    """Why a person should look; None when all is well."""
    if seen is not None and seen.partition.fault:
        return seen.partition.fault
    if entry.state is CatalogState.PAUSED:
        return None
    if untaken := why_untaken(of_slot, now_ms):
        return untaken
    if seen is None:
        return f"no worker reports it. Next: mirrorfleet run mirror --target {entry.link.target}"
    if is_silent(seen.snapshot, now_ms):
        silent = duration(now_ms - seen.snapshot.time_ms)
        return f"its owner {seen.snapshot.owner} has been silent for {silent}"
    if seen.partition.state == UNREACHABLE:
        return "its leader at the source does not answer: how much is left to copy is not known"
    # as of the owner's word and by its clock: since then it may have moved
    still, lag = seen.snapshot.time_ms - seen.partition.last_progress_ms, seen.partition.lag_records
    if lag and still > STUCK_MS:
        return f"stalled: {lag} records wait and nothing was copied for {duration(still)}"
    return None


def duration(milliseconds: int) -> str:
    """`850ms`, `12s`, `3m12s`, `2h05m`, `4d03h`."""
    seconds = max(0, milliseconds) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 1:
        return f"{max(0, milliseconds)}ms"
    if minutes < 1:
        return f"{seconds}s"
    if hours < 1:
        return f"{minutes}m{seconds % 60:02}s"
    if days < 1:
        return f"{hours}h{minutes % 60:02}m"
    return f"{days}d{hours % 24:02}h"
