"""Rates from counters that are looked at now and then."""

from __future__ import annotations

from math import exp
from typing import Final

from mirrorfleet.lagging.ends import CLOCK_STEP_MS

LEAST: Final = 1e-6
"""Less a second is none: a counter that stands still would else move for ever, if ever slower."""


class Rate:
    """Units a second, a moving average over about `memory_s`; None before two looks."""

    __slots__ = ("_at_ms", "_count", "_memory_s", "value")

    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._count = self._at_ms = 0
        self.value: float | None = None

    def seen(self, count: int, at_ms: int) -> None:
        """The counter stood at `count`; one that went back begins anew."""
        passed_s = (at_ms - self._at_ms) / 1000
        if self._at_ms and -CLOCK_STEP_MS / 1000 < passed_s <= 0:
            return
        if self._at_ms and count >= self._count and passed_s > 0:
            now = (count - self._count) / passed_s
            old = now if self.value is None else self.value
            found = now + (old - now) * exp(-passed_s / self._memory_s)
            self.value = found if found >= LEAST else 0.0
        else:
            self.value = None
        self._count, self._at_ms = count, at_ms
