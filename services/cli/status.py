"""`status`: where each partition of a fleet stands, from the catalog and the progress topics.

Exit 1 when one of several targets does not answer; it hides none of the others. Exit 2 when
something needs a person: a fault, a partition that no worker reports, an owner that has been silent
for longer than `overview.STALE_MS`, a source that does not answer it, or records that wait while
nothing was copied for longer than `overview.STUCK_MS`. Topics that are held back are not in the
catalog: `plan` has them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.mapping.standing import standing
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.several import ask_each
from mirrorfleet.operating.standing_shown import show_standing
from mirrorfleet.operating.terminal import EXIT_ERROR, Output
from mirrorfleet.runtime.clock import SystemClock


def run(estate_file: Path, target: str | None, output: Output) -> int:
    """Prints every partition of the fleet, or of all fleets."""
    estate = load_estate(estate_file)
    targets = targets_of(estate, target)
    found, is_whole = ask_each(targets, lambda alias: asyncio.run(_fleet_rows(estate, alias)))
    code = show_standing([row for fleet_rows in found for row in fleet_rows], output)
    return code if is_whole else EXIT_ERROR


async def _fleet_rows(estate: Estate, target: str) -> list[dict[str, object]]:
    async with open_cluster(estate, target) as cluster:
        return await standing(cluster, estate.fleet_of(target), SystemClock())
