"""`format`: the format level that a fleet writes, who knows which, and raising it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_OK, Output, print_json, print_table
from mirrorfleet.records.formats import KNOWN_LEVEL
from mirrorfleet.syncing.leveling import Levels, asked


def run(estate_file: Path, target: str, wanted: int | None, output: Output) -> int:
    """Prints where the fleet stands, after it was raised where that was asked for."""
    estate = load_estate(estate_file)
    targets_of(estate, target)

    async def ask() -> Levels:
        async with open_cluster(estate, target) as cluster:
            return await asked(cluster, estate.fleet_of(target), wanted)

    found = asyncio.run(ask())
    known = {"in force": found.in_force, "this build": KNOWN_LEVEL, **found.workers}
    if output is Output.JSON:
        print_json({"in_force": found.in_force, "known": KNOWN_LEVEL, "workers": found.workers})
    else:
        print_table(("who", "level"), [{"who": n, "level": level} for n, level in known.items()])
    return EXIT_OK
