"""Groups that go over, for people: a table, and a line on how long it took and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrorfleet.operating.failover import COLUMNS, Takeover
from mirrorfleet.operating.terminal import EXIT_OK, EXIT_UNHEALTHY, Output, say_note, show
from mirrorfleet.views.format import plural
from mirrorfleet.watching.estate import groups_missing

if TYPE_CHECKING:
    from mirrorfleet.policy.flows import Flow


def show_takeovers(flow: Flow, found: Sequence[Takeover], took_s: float, output: Output) -> int:
    """The exit code: 2 where one cannot start, or there is none."""
    nothing = groups_missing(flow) or "no group has read anything that is copied"
    show(output, COLUMNS, [one.row() for one in found], nothing)
    ready = sum(one.outcome.is_ready for one in found)
    if found:
        say_note(_summary(flow, found, ready, took_s))
    return EXIT_OK if found and ready == len(found) else EXIT_UNHEALTHY


def _summary(flow: Flow, found: Sequence[Takeover], ready: int, took_s: float) -> str:
    groups = plural(len(found), "group")
    said = f"{ready} of {groups} can go on at {flow.link.target}, after {took_s:.1f} s"
    told = [one.not_copied for one in found]
    if None in told:
        return f"{said}; of some nobody knows how much of their topics is not copied"
    if left := sum(each or 0 for each in told):
        return f"{said}; up to {plural(left, 'offset')} of their topics not copied"
    return f"{said}; all of their topics is copied"
