"""Where a program of ours puts files and words; needs no Spark."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from mirrorfleet.core.errors import RefusedError


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def writable(folder: str) -> Path:
    """The output folder, made when it is not there; asked before any work is done.

    Raises: RefusedError.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise RefusedError(
            f"output folder {folder}: {error.strerror}.", hint="Give another --output."
        ) from None
