"""Where the partitions of a fleet stand, from its topics alone: catalog and newest progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from mirrorfleet.copying.advice import advice
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import read_catalog, read_control
from mirrorfleet.records.overview import STALE_MS, fleet_rows, shown
from mirrorfleet.records.progress import SNAPSHOTS, Progress, decode
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.wire.records import Record

ANOTHER_LOOK_S: Final = 2.5
"""Owners report once a second."""
_FITS_MS: Final = STALE_MS // 2
"""Between a clock and the newest report; beyond it owners that reported before the newest one, in
their turn, would count as silent."""


async def standing(cluster: Cluster, fleet: FleetName, clock: Clock) -> list[dict[str, object]]:
    """A row a partition, as `records.overview.fleet_rows`; `next` is what to do about its fault.

    Raises: RefusedError when there is no catalog; as `read_control`.
    """
    view = await read_catalog(cluster, fleet)
    entries = shown(view.partitions.values())
    unread: dict[int, MirrorfleetError] = {}
    snapshots, now_ms = await _heard(cluster, fleet, clock, unread)
    silent = {SlotNumber(number): str(error) for number, error in unread.items()}
    rows = fleet_rows(entries, snapshots, now_ms, silent)
    return [
        {**row, "next": advice(str(row["fault"] or ""), entry) or None}
        for row, entry in zip(rows, entries, strict=True)
    ]


async def _heard(
    cluster: Cluster, fleet: FleetName, clock: Clock, unread: dict[int, MirrorfleetError]
) -> tuple[list[Progress], int]:
    """The newest snapshots, and what time it is for them.

    Brokers stamp them, and the clock of an operator's machine may be minutes away: ahead of theirs
    it would call each owner silent, behind it a dead one alive. So where it does not fit them, a
    report that comes while we wait for one is of now; without one all are silent, whatever it says.
    """
    found = await newest_progress(cluster, fleet, unread)
    last_ms = _newest_ms(found)
    if not found or abs(clock.now_ms() - last_ms) <= _FITS_MS:
        return found, max(clock.now_ms(), last_ms)
    await asyncio.sleep(ANOTHER_LOOK_S)
    unread.clear()
    again = await newest_progress(cluster, fleet, unread)
    newest_ms = _newest_ms(again)
    if newest_ms > last_ms:
        return again, newest_ms
    is_far = abs(clock.now_ms() - last_ms) > STALE_MS
    return again, max(clock.now_ms(), last_ms + (STALE_MS + 1 if is_far else 0))


def _newest_ms(snapshots: Iterable[Progress]) -> int:
    return max((one.time_ms for one in snapshots), default=0)


def unhealthy(row: Mapping[str, object]) -> str:
    """What is wrong with a partition and what to do, for a person."""
    said = f"unhealthy: {row['topic']}-{row['partition']} of {row['link']}: {row['problem']}"
    return f"{said}\n  next: {row['next']}" if row["next"] else said


async def newest_progress(
    cluster: Cluster, fleet: FleetName, unread: dict[int, MirrorfleetError] | None = None
) -> list[Progress]:
    """The newest snapshot of each slot, as of its record; damaged or newer ones are left out.

    `unread` as `read_control`; a partition is a slot's.

    Brokers stamp the records: one clock for all, whatever the workers' say.
    """
    newest: dict[bytes | None, Progress] = {}

    def take(record: Record) -> None:
        found = decode(record.key, record.value, heard_ms=record.timestamp)
        if isinstance(found, Progress):
            newest[record.key] = found

    name = control_topic(fleet, ControlKind.PROGRESS)
    await read_control(cluster, name, take, last=SNAPSHOTS, unread=unread)
    return list(newest.values())
