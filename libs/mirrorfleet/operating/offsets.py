"""`offsets translate` and `groups`: where a reader goes on in the other region."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from mirrorfleet.config.flows import find_link, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.mapping import asking
from mirrorfleet.mapping.asking import Direction
from mirrorfleet.mapping.group_rows import GROUP_COLUMNS, Row
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, show
from mirrorfleet.operating.usage import Where
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.watching.estate import groups_missing

__all__ = ["Direction", "run_groups", "run_translate"]

_IF_ANY: Final = ("refused", "unchecked")
"""Columns of a table that are left out where they say nothing."""


def run_translate(where: Where, topic: str, offset: int, way: Direction, output: Output) -> int:
    """Prints one translation; `topic` is TOPIC or TOPIC-PARTITION."""
    estate = load_estate(where.file)
    link = find_link(estate, where.target, where.source).link
    fleet = estate.fleet_of(link.target)

    async def ask() -> Row:
        async with open_cluster(estate, link.target) as target:
            found = await asking.ask_offset(target, fleet, link, topic, offset, way, SystemClock())
        opened = partial(open_cluster, estate, link.source)
        return (await asking.confirmed(opened, found, way)).row()

    show(output, asking.OFFSET_COLUMNS, [asyncio.run(ask())], "", if_any=_IF_ANY)
    return EXIT_OK


def run_groups(where: Where, group: str | None, output: Output) -> int:
    """Prints the groups of a link, or one; exit 1 where one is refused or has lost a topic."""
    estate = load_estate(where.file)
    flow = flow_of(estate, find_link(estate, where.target, where.source))
    fleet, there = estate.fleet_of(where.target), flow.link.target

    async def ask() -> list[Row]:
        opened = partial(open_cluster, estate, flow.link.source)
        async with open_cluster(estate, there) as target, asking.answering(opened) as source:
            return await asking.ask_groups(source, target, fleet, flow, SystemClock(), only=group)

    rows = asyncio.run(ask())
    nothing = groups_missing(flow) or "no group has read anything that is copied"
    show(output, GROUP_COLUMNS, rows, nothing, if_any=_IF_ANY)
    return EXIT_ERROR if any(row["refused"] for row in rows) else EXIT_OK
