"""A plan and what became of it, for the command line: made once, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.runtime.clock import SystemClock, SystemDice
from mirrorfleet.syncing.fleet import FRESH_S, FleetSync
from mirrorfleet.syncing.once import Once, Outcome, Preview
from mirrorfleet.syncing.settings import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.config.model import Estate
    from mirrorfleet.planning.pending import PlannedChange

Row = dict[str, object]


def a_fleet(estate: Estate, target: str) -> FleetSync:
    """The fleet of a target, configured and not connected.

    It reads ACLs as often as all else: who waits until looks agree does not wait for their period.
    """
    asked = parse(estate.services.get("sync", {}))
    often = min(asked.acls_period_s, FRESH_S)
    tuning = asked.model_copy(update={"acls_period_s": often})
    alias = estate.links_into(target)[0].target
    return FleetSync(estate, alias, tuning, SystemClock(), SystemDice())


async def previewed(estate: Estate, target: str) -> Preview:
    """What would change. Raises: MirrorfleetError: the target does not answer."""
    fleet = a_fleet(estate, target)
    try:
        once = Once(fleet)
        await once.open()
        return await once.preview()
    finally:
        await fleet.close()


def change_row(change: PlannedChange) -> Row:
    """One change."""
    return {
        "link": change.link or "-",
        "change": change.kind.value,
        "what": change.what,
        "detail": change.detail,
    }


def outcome_rows(outcome: Outcome) -> list[Row]:
    """Each change that was asked for, and whether it was made."""
    words = {"made": outcome.made, "not needed": outcome.gone, "NOT MADE": outcome.not_made}
    return [
        {"outcome": word, **change_row(change)}
        for word, changes in words.items()
        for change in changes
    ]


def outcome_notes(target: str, outcome: Outcome) -> list[str]:
    """What the rows do not say of changes that came and went while somebody was asked."""
    found: list[str] = []
    if count := len(outcome.further):
        found.append(f"{count} changes on {target} are new since the plan; see `mirrorfleet plan`")
    if count := len(outcome.gone):
        why = "another process made them, or what they were for has changed"
        found.append(f"{count} changes on {target} were not needed any more: {why}; see its status")
    return found


def plan_json(previews: Sequence[Preview]) -> Row:
    """Plans of several fleets as one document."""
    return {
        "changes": [change_row(change) for each in previews for change in each.changes],
        "refused": [one._asdict() for each in previews for one in each.refused],
        "unreached": [one._asdict() for each in previews for one in each.unreached],
    }
