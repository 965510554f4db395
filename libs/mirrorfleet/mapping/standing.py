"""Where the partitions of a fleet stand, from its topics alone: catalog and newest progress."""

from __future__ import annotations

from collections.abc import Mapping

from mirrorfleet.copying.advice import advice
from mirrorfleet.core.ids import FleetName
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import read_catalog, read_control
from mirrorfleet.records.overview import fleet_rows, shown
from mirrorfleet.records.progress import SNAPSHOTS, Progress, decode
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.wire.records import Record


async def standing(cluster: Cluster, fleet: FleetName, now_ms: int) -> list[dict[str, object]]:
    """A row a partition, as `records.overview.fleet_rows`; `next` is what to do about its fault.

    Raises: RefusedError when there is no catalog; as `read_control`.
    """
    view = await read_catalog(cluster, fleet)
    entries = shown(view.partitions.values())
    rows = fleet_rows(entries, await newest_progress(cluster, fleet), now_ms)
    return [
        {**row, "next": advice(str(row["fault"] or ""), entry) or None}
        for row, entry in zip(rows, entries, strict=True)
    ]


def unhealthy(row: Mapping[str, object]) -> str:
    """What is wrong with a partition and what to do, for a person."""
    said = f"unhealthy: {row['topic']}-{row['partition']} of {row['link']}: {row['problem']}"
    return f"{said}\n  next: {row['next']}" if row["next"] else said


async def newest_progress(cluster: Cluster, fleet: FleetName) -> list[Progress]:
    """The newest snapshot of each slot, as of its record; damaged or newer ones are left out.

    Brokers stamp the records: one clock for all, whatever the workers' say.
    """
    newest: dict[bytes | None, Progress] = {}

    def take(record: Record) -> None:
        found = decode(record.key, record.value, heard_ms=record.timestamp)
        if isinstance(found, Progress):
            newest[record.key] = found

    await read_control(cluster, control_topic(fleet, ControlKind.PROGRESS), take, last=SNAPSHOTS)
    return list(newest.values())
