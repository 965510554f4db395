"""A command that is told to end runs its `finally` first, so that nothing that it began is left."""

from __future__ import annotations

import signal
from typing import NoReturn


def leave_in_order() -> None:
    """Have SIGTERM and SIGHUP raise SystemExit, as SIGINT raises KeyboardInterrupt."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)


def _leave(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
