"""Where a program of ours puts files and words; needs no Spark."""

from __future__ import annotations

import re
import sys
import tempfile
from math import inf
from pathlib import Path
from typing import Final

from mirrorfleet.core.errors import RefusedError

NOT_INTACT: Final = 2
"""Exit code of a job that did all its work and found a fault: run again at once it finds the same.

argparse ends with it too, where it cannot read the arguments: nor does that mend itself.
"""
_LONGEST_REASON: Final = 400
_TRACEBACK: Final = "Traceback (most recent call last):"
_NO_TIME: Final = "long overflow"
_NO_TIME_SAID: Final = (
    "a record has a timestamp that Spark cannot hold (long overflow, beyond 9.2e15 ms): its"
    " producer most likely writes nanoseconds where Kafka has milliseconds. Mend the producer;"
    " Spark reads the topic again when retention has taken, or kafka-delete-records has deleted,"
    " such records"
)
"""Spark counts microseconds in 64 bits, Kafka takes any number of milliseconds."""
_PYTHON_ERROR: Final = re.compile(r"^[\w.]+(?:Error|Exception)\b.*", re.MULTILINE)


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


def positive(text: str) -> float:
    """A number that an option wants. Raises: ValueError for 0 and less, and for what is no number.

    argparse names the option and this function.
    """
    found = float(text)
    if not 0 < found < inf:
        raise ValueError(text)
    return found


def reason(error: Exception) -> str:
    """The line that says something, of what may be a page of Java around a page of Python."""
    text = str(error)
    if _NO_TIME in text:
        return _NO_TIME_SAID
    _, raised, traceback = text.rpartition(_TRACEBACK)
    if raised and (python := _PYTHON_ERROR.search(traceback)):
        return python[0].rstrip()[:_LONGEST_REASON]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("Caused by:")]
    return (telling[-1:] or lines or [type(error).__name__])[0][:_LONGEST_REASON]
