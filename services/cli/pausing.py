"""`pause` and `resume`: a topic, or one partition of it, that is to stand, and to go on."""

from __future__ import annotations

import asyncio

from mirrorfleet.config.flows import find_link
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_OK, Output, show
from mirrorfleet.operating.usage import Where
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.syncing import pausing

__all__ = ["CatalogState", "run"]


def run(where: Where, topic: str, state: CatalogState, output: Output) -> int:
    """Marks it in the catalog, and prints what was and is."""
    estate = load_estate(where.file)
    link = find_link(estate, where.target, where.source).link

    async def mark() -> list[pausing.Row]:
        async with open_cluster(estate, link.target) as target:
            return await pausing.marked(target, estate.fleet_of(link.target), link, topic, state)

    show(output, pausing.COLUMNS, asyncio.run(mark()), "")
    return EXIT_OK
