"""A clock and dice that a test owns (`core.ports`)."""

from __future__ import annotations


class HandClock:
    """A clock that a test turns: `seconds` turns both faces, `wall_ms` is what all others see."""

    def __init__(self, *, seconds: float = 100.0, wall_ms: int = 100_000) -> None:
        self.seconds, self.wall_ms = seconds, wall_ms
        self._began = seconds

    def now_ms(self) -> int:
        return self.wall_ms + round((self.seconds - self._began) * 1000)

    def monotonic(self) -> float:
        return self.seconds


class NoDice:
    """No jitter: the middle, always."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2
