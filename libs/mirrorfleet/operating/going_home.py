"""Groups that go home, with somebody who agrees: shown, asked, set, reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from mirrorfleet.operating.failback import (
    COLUMNS,
    Return,
    find_returns,
    make_returns,
    return_rows,
)
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, print_table, say_note, show
from mirrorfleet.operating.usage import Consent, agreed
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.watching.estate import groups_missing

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.policy.flows import Flow


async def go_home(
    source: Cluster,
    target: Cluster,
    fleet: FleetName,
    flow: Flow,
    groups: Collection[str],
    *,
    consent: Consent,
    output: Output,
) -> int:
    """The exit code: 1 where one does not stand where it goes on, or nobody agreed."""
    home, away = flow.link
    found = await find_returns(source, target, fleet, flow, SystemClock(), groups)
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


def _explain(found: Iterable[Return]) -> None:
    for each in found:
        if each.trouble:
            say_note(f"not set: {each.group}: {each.trouble}")
