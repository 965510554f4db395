"""`failback`: groups that worked on the target go on at home, at the first record not read there.

Exit 0 when each stands where it goes on, 1 when one does not, or nobody agreed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from mirrorfleet.config.flows import find_link, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.failback import (
    COLUMNS,
    Return,
    find_returns,
    make_returns,
    return_rows,
)
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, print_table, say_note, show
from mirrorfleet.operating.usage import Consent, Where, agreed, consented
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.watching.estate import groups_missing


def run(where: Where, groups: Collection[str], consent: Consent, output: Output) -> int:
    """Shows, asks, sets, reports."""
    consented(output, consent, "mirrorfleet failback")
    estate = load_estate(where.file)
    flow = flow_of(estate, find_link(estate, where.target, where.source))
    home, away = flow.link

    async def ask() -> int:
        async with open_cluster(estate, home) as source, open_cluster(estate, away) as target:
            fleet, clock = estate.fleet_of(away), SystemClock()
            found = await find_returns(source, target, fleet, flow, clock, groups)
            due = sum(len(each.due) for each in found if not each.trouble)
            if due and consent is Consent.ASK:
                print_table(COLUMNS, return_rows(found, "to set"))
                _explain(found)
            question = f"Set these {due} offsets on {home}?"
            if due and not agreed(question, consent, "mirrorfleet failback"):
                say_note(f"nothing was changed on {home}")
                return EXIT_ERROR
            done = await make_returns(source, target, found)
        nothing = f"no group has read on {away} what it has not read on {home}"
        show(output, COLUMNS, return_rows(done, "set"), groups_missing(flow) or nothing)
        _explain(done)
        return EXIT_ERROR if any(each.trouble for each in done) else EXIT_OK

    return asyncio.run(ask())


def _explain(found: Iterable[Return]) -> None:
    for each in found:
        if each.trouble:
            say_note(f"not set: {each.group}: {each.trouble}")
