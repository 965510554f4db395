"""Ports: the clock and the dice, passed in through constructors so that tests can own them."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as two readings; the pure layers take the numbers, never the clock."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 (Kafka's timestamps)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for intervals and deadlines."""
        ...


class Dice(Protocol):
    """Randomness for jitter."""

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        ...
