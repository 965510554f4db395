"""`positions export|import`: positions as a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.exported import shortened
from mirrorfleet.operating.positions import export_with, import_with, positions_of
from mirrorfleet.operating.terminal import EXIT_OK, EXIT_UNHEALTHY, say, say_note


def run_export(estate_file: Path, target: str) -> int:
    """Prints a line a partition; 2 when some have no position, which it names."""
    estate = load_estate(estate_file)
    targets_of(estate, target)
    found = asyncio.run(export_with(estate, target, open_cluster))
    for line in found.lines:
        say(line)
    if not found.without:
        return EXIT_OK
    which = shortened(found.without)
    say_note(f"without a position, so not in this export: {which}. New and not begun, or lost.")
    return EXIT_UNHEALTHY


def run_import(estate_file: Path, target: str, file: Path) -> int:
    """Checks all of the file, then writes."""
    estate = load_estate(estate_file)
    targets_of(estate, target)
    done = asyncio.run(import_with(estate, target, positions_of(file), open_cluster))
    say(f"{done.written} positions put back, {done.known} were there already")
    return EXIT_OK
