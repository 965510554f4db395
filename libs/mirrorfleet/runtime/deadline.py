"""One deadline handed down through many steps: each step takes what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock


class Deadline:
    """A moment on the monotonic clock, `seconds` from its making."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.at = clock.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never below 0 (so that it can be given to `asyncio.timeout`)."""
        return max(0.0, self.at - self._clock.monotonic())
