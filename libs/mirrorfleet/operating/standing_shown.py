"""Where partitions stand, for people: a table, and a word on each that needs one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirrorfleet.mapping.standing import unhealthy
from mirrorfleet.operating.terminal import EXIT_OK, EXIT_UNHEALTHY, Output, say_note, show
from mirrorfleet.records.overview import duration

_COLUMNS: Final = (
    "link",
    "topic",
    "partition",
    "state",
    "position",
    "high_watermark",
    "lag_records",
    "slot",
    "owner",
    "progress_age",
    "fault",
)


def show_standing(rows: Sequence[Mapping[str, object]], output: Output) -> int:
    """Prints rows of `mapping.standing`; the exit code."""
    shown = [{**row, "progress_age": _age(row["progress_age_ms"])} for row in rows]
    show(output, _COLUMNS, rows if output is Output.JSON else shown, "no partition is known yet")
    problems = [row for row in rows if row["problem"] is not None]
    for row in problems:
        say_note(unhealthy(row))
    return EXIT_UNHEALTHY if problems else EXIT_OK


def _age(value: object) -> str | None:
    return duration(value) if isinstance(value, int) else None
