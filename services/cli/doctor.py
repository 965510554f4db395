"""`doctor`: what limits the slots of some workers now, and by which figures one knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirrorfleet.operating.doctor import asked, rows
from mirrorfleet.operating.several import ask_each
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, show

_COLUMNS: Final = ("worker", "link", "slot", "state", "lag_records", "limit", "why")


def run(workers: Sequence[str], output: Output) -> int:
    """Prints every slot of the workers at these addresses."""
    found, is_whole = ask_each(workers, asked)
    show(output, _COLUMNS, rows(found), "these workers have no slots")
    return EXIT_OK if is_whole else EXIT_ERROR
