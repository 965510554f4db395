"""`failover` and `failback`: groups that go on in the other region, and come home.

Of `failover` exit 0 says that each can start there, or has, 2 that one cannot; it changes nothing.
Of `failback` exit 0 says that each stands where it goes on, 1 that one does not, or nobody agreed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from mirrorfleet.config.flows import find_link, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.failover import Asked, Takeover, find_takeovers, wait_for
from mirrorfleet.operating.going_home import go_home
from mirrorfleet.operating.going_over import show_takeovers
from mirrorfleet.operating.options import Drain
from mirrorfleet.operating.terminal import Output, say_note
from mirrorfleet.operating.usage import Consent, Where, consented
from mirrorfleet.runtime.clock import SystemClock

__all__ = ["Wish", "run_failback", "run_failover"]


@dataclass(frozen=True, slots=True)
class Wish:
    """Which groups, all without a name; how long somebody waits, in seconds, and for what."""

    groups: tuple[str, ...]
    within_s: float
    drain: Drain


def run_failover(where: Where, wish: Wish, output: Output) -> int:
    """Waits, tells what it waits for, shows."""
    estate, clock = load_estate(where.file), SystemClock()
    flow = flow_of(estate, find_link(estate, where.target, where.source))
    asked = Asked(estate.fleet_of(flow.link.target), flow, wish.groups, wish.drain)
    began = clock.monotonic()

    async def look() -> list[Takeover]:
        opened = partial(open_cluster, estate, flow.link.source)
        async with open_cluster(estate, flow.link.target) as target:
            return await find_takeovers(opened, target, asked, clock)

    found = asyncio.run(wait_for(look, clock, wish.within_s, say_note))
    return show_takeovers(flow, found, clock.monotonic() - began, output)


def run_failback(where: Where, groups: Collection[str], consent: Consent, output: Output) -> int:
    """Shows, asks, sets, reports."""
    consented(output, consent, "mirrorfleet failback")
    estate = load_estate(where.file)
    flow = flow_of(estate, find_link(estate, where.target, where.source))
    home, away = flow.link

    async def go() -> int:
        async with open_cluster(estate, home) as source, open_cluster(estate, away) as target:
            fleet = estate.fleet_of(away)
            return await go_home(
                source, target, fleet, flow, groups, consent=consent, output=output
            )

    return asyncio.run(go())
