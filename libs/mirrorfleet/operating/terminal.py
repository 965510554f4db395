"""What a command prints: a table for people, JSON for programs, errors on stderr.

NO_COLOR and a stdout that is no terminal give plain text. Names come from strangers: a group may be
called whatever a terminal takes for a command, so none of that is printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_UNHEALTHY: Final = 2

_PLAIN_WIDTH: Final = 250
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")
"""What JSON leaves as it is, and terminals may not."""


class Output(StrEnum):
    """The value of `-o`."""

    TABLE = "table"
    JSON = "json"


Row = Mapping[str, object]


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table of the named fields; None is shown as '-'."""
    from rich.console import Console  # noqa: PLC0415 - loaded when used
    from rich.table import Table  # noqa: PLC0415 - loaded when used

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), (int, type(None))) for row in rows)
        table.add_column(
            column.upper().replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*("-" if row.get(c) is None else _text(row[c]) for c in columns))
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    # Names and patterns are shown as they are: `[a-z]*` and `team[/]a` are no markup.
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def show(
    output: Output,
    columns: Sequence[str],
    rows: Sequence[Row],
    nothing: str,
    *,
    if_any: Collection[str] = (),
) -> None:
    """All of the rows, as JSON or in a table of the named fields; without rows a line says so.

    `if_any`: columns that a table has only where one of them says something.
    """
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        told = [one for one in columns if one not in if_any or any(row.get(one) for row in rows)]
        print_table(told, rows)
    else:
        say(nothing)


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(_printable(text) + "\n")


def say_note(text: str) -> None:
    """A line on stderr: what is not part of the answer."""
    sys.stderr.write(_printable(text) + "\n")


def say_error(message: str) -> None:
    """The message on stderr."""
    sys.stderr.write(f"error: {_printable(message)}\n")


def end_output() -> None:
    """Writes what waits in the buffer: at exit nobody could say that it failed.

    Raises: OSError.
    """
    sys.stdout.flush()


def give_up(error: OSError) -> int:
    """Says what the system refused; the exit code. Of a reader that went away nobody is told."""
    try:
        end_output()
    except OSError:
        # what is left would be tried again at exit, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):  # as `| head` makes one
        where = f"{error.filename}: " if error.filename else ""
        say_error(f"{where}{error.strerror or str(error) or type(error).__name__}.")
    return EXIT_ERROR


def _text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return _printable(text)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else "." for each in text)
