"""`status`: where each partition of a fleet stands, from the catalog and the progress topics.

Exit 2 when something needs a person: a fault, a partition that no worker reports, or an owner
that has been silent for longer than `overview.STALE_MS`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import ConfigError, RefusedError
from mirrorfleet.core.ids import FleetName
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.stored import committed_records, partition_bounds
from mirrorfleet.records import catalog as catalog_codec
from mirrorfleet.records import progress as progress_codec
from mirrorfleet.records.catalog import CatalogPartition, Removed
from mirrorfleet.records.overview import duration, fleet_rows
from mirrorfleet.records.progress import Progress
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.wire.records import Record
from services.cli.connecting import open_cluster
from services.cli.output import (
    EXIT_OK,
    EXIT_UNHEALTHY,
    Output,
    print_json,
    print_table,
    say,
    say_note,
)

_COLUMNS: Final = (
    "link",
    "topic",
    "partition",
    "state",
    "position",
    "high_watermark",
    "lag_records",
    "slot",
    "owner",
    "progress_age",
    "fault",
)


def run(estate_file: Path, target: str | None, output: Output) -> int:
    """Prints every partition of the fleet, or of all fleets."""
    estate = load_estate(estate_file)
    targets = estate.targets() if target is None else (target,)
    for alias in targets:
        if not estate.links_into(alias):
            known = ", ".join(estate.targets()) or "none"
            raise ConfigError(f"no link copies into {alias!r}.", hint=f"Targets: {known}.")
    rows = [row for alias in targets for row in asyncio.run(_fleet_rows(estate, alias))]
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        shown = [{**row, "progress_age": _age(row["progress_age_ms"])} for row in rows]
        print_table(_COLUMNS, shown)
    else:
        say("no partition is in the catalog yet")
    problems = [row for row in rows if row["problem"] is not None]
    for row in problems:
        say_note(f"unhealthy: {row['topic']}-{row['partition']} of {row['link']}: {row['problem']}")
    return EXIT_UNHEALTHY if problems else EXIT_OK


async def _fleet_rows(estate: Estate, target: str) -> list[dict[str, object]]:
    fleet = estate.fleet_of(target)
    async with open_cluster(estate, target) as cluster:
        known = await _known_entries(cluster, fleet, target)
        snapshots = await _snapshots(cluster, fleet)
    return fleet_rows(known, snapshots, int(time.time() * 1000))


async def _known_entries(
    cluster: Cluster, fleet: FleetName, target: str
) -> Sequence[CatalogPartition]:
    """The catalog's partitions. Raises: RefusedError when there is no catalog."""
    records = await _read(cluster, control_topic(fleet, ControlKind.CATALOG))
    if records is None:
        raise RefusedError(
            f"{target}: fleet {fleet!r} has no catalog yet, so nothing is copied.",
            hint=f"Next: mirrorfleet run sync --target {target}",
        )
    entries: dict[bytes | None, CatalogPartition] = {}
    for record in records:
        match catalog_codec.decode(record.key, record.value):
            case CatalogPartition() as entry:
                entries[record.key] = entry
            case Removed():
                entries.pop(record.key, None)
            case _:
                pass
    return list(entries.values())


async def _snapshots(cluster: Cluster, fleet: FleetName) -> list[Progress]:
    """The newest snapshot of each slot; damaged or newer ones are left out."""
    newest: dict[bytes | None, Progress] = {}
    for record in await _read(cluster, control_topic(fleet, ControlKind.PROGRESS)) or ():
        found = progress_codec.decode(record.key, record.value)
        if isinstance(found, Progress):
            newest[record.key] = found
    return list(newest.values())


async def _read(cluster: Cluster, name: str) -> list[Record] | None:
    """All committed records of a control topic; None when there is no such topic."""
    topic = (await cluster.metadata((name,))).topics[name]
    if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    topic = await cluster.topic(name, refresh=True)
    found: list[Record] = []
    for number, (start, end) in (await partition_bounds(cluster, topic)).items():
        found += [one async for one in committed_records(cluster, topic, number, start, end)]
    return found


def _age(value: object) -> str | None:
    return duration(value) if isinstance(value, int) else None
