"""`pause`, `resume`, `throttle`: what is asked of a topic, or of one partition of it."""

from __future__ import annotations

import asyncio
from typing import Final

from mirrorfleet.config.flows import find_link
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate, EstateLink
from mirrorfleet.config.sizes import bytes_a_second
from mirrorfleet.core.ids import Link
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_OK, Output, show
from mirrorfleet.operating.usage import Where
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.syncing import pausing

ACTIVE: Final = pausing.Standing(CatalogState.ACTIVE)
PAUSED: Final = pausing.Standing(CatalogState.PAUSED)
OFF: Final = "off"


def run_throttle(where: Where, topic: str, limit: str, output: Output) -> int:
    """Has so many bytes a second read of each partition; `off`: as many as its rule says."""
    asked = None if limit == OFF else bytes_a_second(limit)
    estate, link = _meant(where)
    throttles = {rule.name: rule.throttle for rule in link.rules}
    return _mark(estate, link.link, topic, pausing.Throttled(asked, throttles), output)


def run(where: Where, topic: str, wish: pausing.Wish, output: Output) -> int:
    """Marks it in the catalog, and prints what was and is."""
    estate, link = _meant(where)
    return _mark(estate, link.link, topic, wish, output)


def _meant(where: Where) -> tuple[Estate, EstateLink]:
    estate = load_estate(where.file)
    return estate, find_link(estate, where.target, where.source)


def _mark(estate: Estate, link: Link, topic: str, wish: pausing.Wish, output: Output) -> int:
    async def mark() -> list[pausing.Row]:
        async with open_cluster(estate, link.target) as target:
            return await pausing.marked(target, estate.fleet_of(link.target), link, topic, wish)

    show(output, pausing.COLUMNS, asyncio.run(mark()), "")
    return EXIT_OK
