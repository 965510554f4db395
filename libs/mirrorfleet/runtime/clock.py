"""The real clock and the real dice; everything below takes them as `core.ports`."""

from __future__ import annotations

import random
import time


class SystemClock:
    """The machine's clock, as a `core.ports.Clock`."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class SystemDice:
    """The system's randomness, as a `core.ports.Dice`; two workers never draw alike."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        return self._random.uniform(low, high)
