"""`plan` and `apply`: what must change on the targets, line by line; and exactly that, made.

Exit 0 when nothing is left to do, 2 when changes are pending, 1 when one was asked for and not
made or a source did not answer. `apply` asks; without a terminal it needs --yes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final

import typer

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.terminal import (
    EXIT_ERROR,
    EXIT_OK,
    EXIT_UNHEALTHY,
    Output,
    Row,
    print_json,
    print_table,
    say,
    say_note,
)
from mirrorfleet.planning.pending import PlannedChange
from mirrorfleet.syncing.once import Once, Outcome, Preview, Refused
from mirrorfleet.syncing.shown import (
    a_fleet,
    change_row,
    outcome_rows,
    plan_json,
    previewed,
)

_COLUMNS: Final = ("link", "change", "what", "detail")
_OUTCOMES: Final = ("outcome", *_COLUMNS)


class Consent(Enum):
    """Whether somebody has agreed already."""

    ASK = auto()
    GIVEN = auto()


def run_plan(estate_file: Path, target: str | None, output: Output) -> int:
    """Prints what would change."""
    estate = load_estate(estate_file)
    previews = [asyncio.run(previewed(estate, alias)) for alias in targets_of(estate, target)]
    changes = [change for each in previews for change in each.changes]
    if output is Output.JSON:
        print_json(plan_json(previews))
    else:
        _show(previews)
    if any(each.unreached for each in previews):
        return EXIT_ERROR
    return EXIT_UNHEALTHY if changes else EXIT_OK


def run_apply(estate_file: Path, target: str | None, consent: Consent, output: Output) -> int:
    """Shows, asks, makes, reports; fleet after fleet."""
    estate = load_estate(estate_file)
    codes, rows = [EXIT_OK], list[Row]()
    for alias in targets_of(estate, target):
        outcome = asyncio.run(_apply(estate, alias, consent, output))
        if outcome is None:
            say_note("nothing was changed")
            return EXIT_ERROR
        rows += outcome_rows(outcome)
        _explain(outcome.refused)
        if outcome.further:
            say_note(
                f"{len(outcome.further)} changes are new since the plan; see `mirrorfleet plan`"
            )
        codes.append(EXIT_ERROR if outcome.not_made else EXIT_OK)
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        print_table(_OUTCOMES, rows)
    return EXIT_ERROR if EXIT_ERROR in codes else max(codes)


async def _apply(estate: Estate, target: str, consent: Consent, output: Output) -> Outcome | None:
    """None when nobody agreed."""
    fleet = a_fleet(estate, target)
    try:
        once = Once(fleet)
        await once.open()
        found = await once.preview()
        if output is Output.TABLE:
            _show([found])
        _explain(found.unreached)
        if found.changes and not _agreed(target, found.changes, consent):
            return None
        return await once.apply(found.changes)
    finally:
        await fleet.close()


def _agreed(target: str, changes: Sequence[PlannedChange], consent: Consent) -> bool:
    if consent is Consent.GIVEN:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked.", hint="Say it: mirrorfleet apply --yes.")
    return typer.confirm(f"Make these {len(changes)} changes on {target}?")


def _show(previews: Sequence[Preview]) -> None:
    rows = [change_row(change) for each in previews for change in each.changes]
    if rows:
        print_table(_COLUMNS, rows)
    else:
        say("in step: nothing to change")
    for each in previews:
        _explain([*each.refused, *each.unreached])


def _explain(refused: Sequence[Refused]) -> None:
    for one in refused:
        say_note(f"{one.reason}: {one.link} {one.topic}: {one.detail}")
