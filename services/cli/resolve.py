"""`resolve`: the way out for a partition that stands still."""

from __future__ import annotations

import asyncio

from mirrorfleet.config.flows import find_link
from mirrorfleet.config.load import load_estate
from mirrorfleet.mapping.asking import stated_partition
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.resolving import Wish, resolve
from mirrorfleet.operating.terminal import EXIT_OK, say
from mirrorfleet.operating.usage import Where
from mirrorfleet.records.events import Event
from mirrorfleet.runtime.clock import SystemClock


def run(where: Where, topic: str, wish: Wish) -> int:
    """Asks the fleet and prints what the ledger says of it."""
    estate = load_estate(where.file)
    link = find_link(estate, where.target, where.source).link
    fleet, at = estate.fleet_of(link.target), stated_partition(topic)

    async def ask() -> Event:
        async with open_cluster(estate, link.target) as target:
            return await resolve(target, fleet, link, at, wish, SystemClock())

    told = asyncio.run(ask())
    say(f"{at}: {told.kind} [{told.first}, {told.end}) {told.cause}: {told.detail}")
    return EXIT_OK
