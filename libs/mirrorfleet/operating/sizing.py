"""`size`: what a rate of records takes, by measured figures of a core; nothing is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from mirrorfleet.copying.seats import most_seats
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.terminal import EXIT_OK, EXIT_UNHEALTHY, Output, say_note, show
from mirrorfleet.planning.sizing import (
    Figures,
    Shape,
    Wanted,
    Way,
    figures_of,
    first_limit,
    sized,
)
from mirrorfleet.slots.settings import SlotSettings

__all__ = ["Shape", "Wanted", "Way", "run"]

_COLUMNS: Final = ("what", "amount", "used", "words")


def run(wanted: Wanted, calibration: Path | None, output: Output) -> int:
    """Prints what is needed, and what saturates first. Exit 2 when something cannot be had."""
    worker = SlotSettings()
    needs = sized(
        wanted,
        _figures(calibration),
        memory_bytes=worker.memory_bytes,
        connections=most_seats(worker.fetch_connections, tls=wanted.tls),
    )
    show(output, _COLUMNS, [need.row() for need in needs], "")
    first = first_limit(needs)
    used = first.used or 0.0
    if used > 1:
        say_note(f"cannot be: {first.what}, {first.amount}: {first.words}")
        return EXIT_UNHEALTHY
    say_note(
        f"saturates first: {first.what}, {used:.0%} used with {wanted.headroom:g} times the rate"
    )
    return EXIT_OK


def _figures(calibration: Path | None) -> Figures:
    """Raises: ConfigError when the file is not what the bench writes; OSError."""
    if calibration is None:
        return Figures()
    try:
        found = json.loads(calibration.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{calibration}: not JSON: {error}.", path="--calibration") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{calibration}: not an object of workloads.", path="--calibration")
    return figures_of(found)
