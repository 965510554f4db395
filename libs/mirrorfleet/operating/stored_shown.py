"""What is stored in a topic, printed: its rows, and what is there and is not shown."""

from __future__ import annotations

from mirrorfleet.kafka.browsing import Stored
from mirrorfleet.operating.terminal import (
    EXIT_ERROR,
    EXIT_OK,
    Output,
    print_json,
    print_table,
    say_error,
    say_note,
)


def show_stored(found: Stored, output: Output) -> int:
    """The exit code: 1 where a part cannot be read."""
    if output is Output.JSON:
        print_json(found.rows)
    elif found.rows:
        print_table(list(found.rows[0]), found.rows)
    elif not (found.held or found.unread):
        say_note("nothing is stored there")
    for number, (first, end) in found.held.items():
        where = f"{found.topic}-{number}: offsets {first} to {end - 1}"
        say_note(f"{where} are not shown: transactions that are still open hold them back")
    for number, error in found.unread.items():
        say_error(f"{found.topic}-{number}: {error}")
    return EXIT_ERROR if found.unread else EXIT_OK
