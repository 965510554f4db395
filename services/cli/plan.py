"""`plan` and `apply`: what must change on the targets, line by line; and exactly that, made.

Exit 0 when nothing is left to do, 2 when changes are pending or went away before they were made,
1 when one was asked for and not made, nobody agreed, or a cluster did not answer. A topic that is
held back is named; no change helps it. `apply` asks; without a terminal and for JSON it needs
--yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.operating.several import ask_each
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
from mirrorfleet.operating.usage import Consent, agreed, consented
from mirrorfleet.syncing.once import Once, Outcome, Preview, Refused
from mirrorfleet.syncing.shown import (
    a_fleet,
    change_row,
    outcome_notes,
    outcome_rows,
    plan_json,
    previewed,
)

_COLUMNS: Final = ("link", "change", "what", "detail")
_OUTCOMES: Final = ("outcome", *_COLUMNS)


def run_plan(estate_file: Path, target: str | None, output: Output) -> int:
    """Prints what would change."""
    estate = load_estate(estate_file)
    targets = targets_of(estate, target)
    previews, is_whole = ask_each(targets, lambda alias: asyncio.run(previewed(estate, alias)))
    changes = [change for each in previews for change in each.changes]
    if output is Output.JSON:
        print_json(plan_json(previews))
    else:
        _show(previews)
    if not is_whole or any(each.unreached for each in previews):
        return EXIT_ERROR
    return EXIT_UNHEALTHY if changes else EXIT_OK


def run_apply(estate_file: Path, target: str | None, consent: Consent, output: Output) -> int:
    """Shows, asks, makes, reports; fleet after fleet. What was made is told, whatever follows."""
    consented(output, consent, "mirrorfleet apply")
    estate = load_estate(estate_file)
    rows: list[Row] = []

    def make(alias: str) -> int:
        outcome = asyncio.run(_apply(estate, alias, consent, output))
        rows.extend(outcome_rows(outcome) if outcome else ())
        return _judged(alias, outcome)

    try:
        codes, is_whole = ask_each(targets_of(estate, target), make)
    finally:
        if output is Output.JSON:
            print_json(rows)
        elif rows:
            print_table(_OUTCOMES, rows)
            say("a `sync` that began with another estate takes back what was made: restart it")
    return EXIT_ERROR if EXIT_ERROR in codes or not is_whole else max(codes)


def _judged(target: str, outcome: Outcome | None) -> int:
    """The exit code for one fleet; says what its rows do not."""
    if outcome is None:
        say_note(f"nothing was changed on {target}")
        return EXIT_ERROR
    _explain(outcome.refused)
    for note in outcome_notes(target, outcome):
        say_note(note)
    if outcome.not_made or outcome.unreached:
        return EXIT_ERROR
    return EXIT_UNHEALTHY if outcome.further or outcome.gone else EXIT_OK


async def _apply(estate: Estate, target: str, consent: Consent, output: Output) -> Outcome | None:
    """None when nobody agreed."""
    fleet = a_fleet(estate, target)
    try:
        once = Once(fleet)
        await once.open()
        found = await once.preview()
        if output is Output.TABLE:
            _show([found])
        else:
            _explain(found.unreached)
        question = f"Make these {len(found.changes)} changes on {target}?"
        if found.changes and not agreed(question, consent, "mirrorfleet apply"):
            return None
        return await once.apply(found.changes)
    finally:
        await fleet.close()


def _show(previews: Sequence[Preview]) -> None:
    rows = [change_row(change) for each in previews for change in each.changes]
    held = [one for each in previews for one in (*each.refused, *each.unreached)]
    if rows:
        print_table(_COLUMNS, rows)
    elif held:
        say(f"nothing to change, but not in step: {len(held)} held back or out of reach")
    else:
        say("in step: nothing to change")
    _explain(held)


def _explain(refused: Sequence[Refused]) -> None:
    for one in refused:
        say_note(f"{one.reason}: {one.link} {one.topic}: {one.detail}")
