"""`fence`: the emergency stop of a link, also of workers that nobody can reach, and its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mirrorfleet.config.load import load_estate
from mirrorfleet.operating import fencing
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, print_json, print_table
from mirrorfleet.runtime.clock import SystemClock


def run(estate_file: Path, link_text: str, reason: str | None, output: Output) -> int:
    """Fence every slot of a link for a reason; without one, lift the fences. Says what happened."""
    estate = load_estate(estate_file)
    link = fencing.link_of(estate, link_text)

    async def mark() -> list[dict[str, object]]:
        async with open_cluster(estate, link.target) as target:
            fleet = estate.fleet_of(link.target)
            return await fencing.marked(target, fleet, link, reason, SystemClock())

    rows = asyncio.run(mark())
    print_json(rows) if output is Output.JSON else print_table(("slot", "state"), rows)
    return EXIT_OK if all(row["state"] in fencing.DONE for row in rows) else EXIT_ERROR
