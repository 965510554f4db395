"""`top`: what a fleet copies just now, again and again, until somebody has seen enough."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.mapping.standing import newest_progress
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_OK, Output, print_json, print_table, say
from mirrorfleet.records.overview import newest
from mirrorfleet.views.busiest import COLUMNS, Busy, Look, busiest, summary

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName
    from mirrorfleet.kafka.cluster import Cluster

_CLEAR: Final = "\x1b[H\x1b[2J"


def run(estate_file: Path, target: str, every_s: float, most: int, output: Output) -> int:
    """Prints a frame each `every_s` until Ctrl-C; one frame as JSON, or where nobody watches."""
    estate = load_estate(estate_file)
    targets_of(estate, target)
    is_watched = output is Output.TABLE and sys.stdout.isatty()

    async def watch() -> None:
        async with open_cluster(estate, target) as cluster:
            before = await _look(cluster, estate.fleet_of(target))
            while True:
                await asyncio.sleep(every_s)
                now = await _look(cluster, estate.fleet_of(target))
                _show(busiest(before, now), most, output, clear=is_watched)
                if not is_watched:
                    return
                before = now

    with suppress(KeyboardInterrupt):  # that is how somebody says it
        asyncio.run(watch())
    return EXIT_OK


async def _look(cluster: Cluster, fleet: FleetName) -> Look:
    return newest(await newest_progress(cluster, fleet))


def _show(found: list[Busy], most: int, output: Output, *, clear: bool) -> None:
    rows = [one.row() for one in found[:most]]
    if output is Output.JSON:
        print_json(rows)
        return
    if clear:
        sys.stdout.write(_CLEAR)
    if rows:
        print_table(COLUMNS, rows)
    say(summary(found) if found else "no worker tells of any partition")
    sys.stdout.flush()
