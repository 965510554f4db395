"""Brokers whose wall clocks can be moved, each by itself and while it runs: Debian's libfaketime.

    with movable():
        ...                          # brokers that are started here
    step(broker, -300.0)             # from now on it is five minutes behind

Only the wall clock moves: Java measures what has passed by the monotonic one, which no daemon that
sets the time moves either. The library reads how far from a file in the broker's own directory,
its working directory, once a second.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.broker import Broker

FILE: Final = "clock"
PACKAGE: Final = "libfaketime"
_SETTINGS: Final = {
    "FAKETIME_TIMESTAMP_FILE": FILE,
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # it is for an old libc, and has Java's waits spin
    "NO_FAKE_STAT": "1",
}


def library() -> Path:
    """Where the library is. Raises: FileNotFoundError when the machine has none."""
    for found in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"):
        return found
    raise FileNotFoundError(f"no libfaketime below /usr/lib: apt-get install {PACKAGE}")


@contextmanager
def movable() -> Iterator[None]:
    """Start brokers within; what is started after it has the clock of the machine."""
    with patch.dict(os.environ, LD_PRELOAD=str(library()), **_SETTINGS):
        yield


def step(broker: Broker, ahead_s: float) -> None:
    """Set a broker's wall clock so far ahead of the machine's, or behind it when negative."""
    new = broker.directory / f"{FILE}.new"
    new.write_text(f"{ahead_s:+.0f}\n", encoding="ascii")
    new.replace(broker.directory / FILE)  # never read half
