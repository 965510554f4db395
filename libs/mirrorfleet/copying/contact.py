"""Whether a worker can copy slots of a source, from when that answered last.

    answers ──15 s of silence──> claims no slots of others ──30 s──> nor keeps its own
       ^                                  │                               │
       │<──answers for 20 s, or longer────┴── slots of others             │
       └<──answers once──────────────────── its own, if nobody else had them

A source that is away from all workers moves nothing: all have said that they cannot copy slots of
others before the first one gives up its own, and each has its own back before others may claim
them. They notice the same end, or the same return, some seconds apart: each looks every few, and an
answer that does not come is waited for.
"""

from __future__ import annotations

from math import inf
from typing import Final

OTHERS_S: Final = 15.0
"""A source that is silent for longer is none to copy slots of others from."""
OWN_S: Final = 30.0
"""And none to keep slots for. Several times what a broker's restart, or a leader's move (9 s:
broker.session.timeout.ms), takes: a short cut moves nothing."""
STEADY_S: Final = 20.0
"""A source that was silent has to answer for so long before slots of others are claimed."""
STEADY_MOST_S: Final = 320.0
"""Twice as long each time when it falls silent again soon: each move is a stall."""
OFTEN_S: Final = 600.0
"""What falls silent again within this time falls silent soon."""


class Contact:
    """One source as one worker knows it. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        """It has answered just now, for the first time."""
        self.heard_at = now
        """When it answered last."""
        self._slept_s = 0.0
        self._since, self._steady_s = -inf, 0.0

    def slept(self, seconds: float) -> None:
        """We did not run for so long, and could not hear it."""
        self._slept_s += seconds

    def heard(self, now: float) -> None:
        """It answered."""
        if self._silent_s(now) > OTHERS_S:
            is_soon = self.heard_at - self._since < OFTEN_S
            self._steady_s = min(2 * self._steady_s, STEADY_MOST_S) if is_soon else STEADY_S
            self._since = now
        self.heard_at, self._slept_s = now, 0.0

    def is_reached(self, now: float, *, is_own: bool) -> bool:
        """Whether a slot can be copied from there, which is ours already or would become ours."""
        silent_s = self._silent_s(now)
        if is_own:
            return silent_s <= OWN_S
        return silent_s <= OTHERS_S and now - self._since >= self._steady_s

    def _silent_s(self, now: float) -> float:
        return now - self.heard_at - self._slept_s
