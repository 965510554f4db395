"""`import mm2`: an estate out of MirrorMaker 2's properties, and what a person is to do for it."""

from __future__ import annotations

from pathlib import Path

from mirrorfleet.config.from_mm2 import estate_from
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, say, say_error, say_note


def run(file: Path, name: str) -> int:
    """Prints the estate; notes go to stderr. 1 where it is not valid as it is."""
    made = estate_from(file, name)
    say(made.text.rstrip())
    for note in made.notes:
        say_note(f"note: {note}")
    if made.problem:
        say_error(f"the estate is not valid as it is.\n{made.problem}")
    return EXIT_ERROR if made.problem else EXIT_OK
