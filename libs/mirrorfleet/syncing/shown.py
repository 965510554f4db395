"""What a plan and its outcome are as rows for people and programs."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorfleet.planning.pending import PlannedChange
from mirrorfleet.syncing.once import Outcome, Preview


def change_row(change: PlannedChange) -> dict[str, object]:
    """One line of a plan."""
    return {
        "link": change.link or "-",
        "change": change.kind.value,
        "what": change.what,
        "detail": change.detail,
    }


def outcome_rows(outcome: Outcome) -> list[dict[str, object]]:
    """What was agreed, and whether it was made."""
    words = {"made": outcome.made, "NOT MADE": outcome.not_made}
    return [
        {"outcome": word, **change_row(change)}
        for word, changes in words.items()
        for change in changes
    ]


def plan_json(previews: Sequence[Preview]) -> dict[str, object]:
    """Several plans as one object."""
    return {
        "changes": [change_row(change) for each in previews for change in each.changes],
        "refused": [one._asdict() for each in previews for one in each.refused],
        "unreached": [one._asdict() for each in previews for one in each.unreached],
    }
