"""Holding a state of the world for a time: the only place in `tests` that may sleep.

Not for waiting: to wait for a thing, see `tests/faultkit/waiting.py`. A fault that lasts (a frozen
process, a cut line, load that goes on) has no event that ends it, so its length is the point.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final


def asked_s(otherwise: float) -> float:
    """How long a fault or a load is held: what `MIRRORFLEET_FAULT_SECONDS` says (60 in
    `make faults`), or `otherwise`.
    """
    return float(os.environ.get("MIRRORFLEET_FAULT_SECONDS", otherwise))


IS_LONG = asked_s(0) >= 60
"""The long form: then the promised times are asserted, else what any machine can keep."""


FULL_RATE: Final = 22_000
"""Records a second that a load of the long form makes, so that 20,000 are committed: it aborts a
twenty-seventh, and more where a fault ends its transactions."""


def asked_rate(otherwise: float) -> float:
    """How many records a second a load has: what `MIRRORFLEET_FAULT_RATE` says, `FULL_RATE` in the
    long form, or `otherwise`.
    """
    return float(os.environ.get("MIRRORFLEET_FAULT_RATE", FULL_RATE if IS_LONG else otherwise))


async def hold(seconds: float, *, reason: str) -> None:
    """Let the world run on for `seconds`; `reason` says which state is held and why so long."""
    if not reason:
        raise ValueError("say which state is held")
    await asyncio.sleep(seconds)


def hold_sync(seconds: float, *, reason: str) -> None:
    """Do as `hold`, for tests without a loop."""
    if not reason:
        raise ValueError("say which state is held")
    time.sleep(seconds)
