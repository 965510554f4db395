"""`failback`: groups that worked on the target go on at home, at the first record not read there.

Exit 0 when each stands where it goes on, 1 when one does not, or nobody agreed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mirrorfleet.config.flows import find_link, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.going_home import go_home
from mirrorfleet.operating.terminal import Output
from mirrorfleet.operating.usage import Consent, Where, consented


def run(where: Where, groups: Collection[str], consent: Consent, output: Output) -> int:
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
