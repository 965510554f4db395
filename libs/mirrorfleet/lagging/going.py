"""Where a lag is going, by looks at it that lie some seconds apart."""

from __future__ import annotations

from collections import deque
from typing import Final

from mirrorfleet.lagging.verdict import Trend

_STEP_MS: Final = 2_000
_STEPS: Final = 6
_SHRINKS_BY: Final = 0.05
"""Seconds of lag a second: less is no catching up."""


class Going:
    """The last looks at one partition's lag."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[tuple[int, int | None, int]] = deque(maxlen=_STEPS)
        """Each as of when, time lag and records."""

    def where_to(self, lag: int | None, time_lag: int | None) -> Trend:
        """By what is found now: offsets, and ms."""
        if len(self._looks) < _STEPS:
            return Trend.UNKNOWN
        first_ms, first_time_lag, first_lag = self._looks[0]
        last_ms = self._looks[-1][0]
        if time_lag is not None and first_time_lag is not None:
            by = (first_time_lag - time_lag) / max(1, last_ms - first_ms)
            return Trend.SHRINKS if by >= _SHRINKS_BY else Trend.LASTS
        return Trend.SHRINKS if lag is not None and lag < first_lag else Trend.LASTS

    def looked(self, as_of: int, lag: int | None, time_lag: int | None) -> None:
        """So it was found; one that is dated before the last is of a clock that was set back."""
        if not lag or (self._looks and as_of < self._looks[-1][0]):
            self._looks.clear()
        elif not self._looks or as_of - self._looks[-1][0] >= _STEP_MS:
            self._looks.append((as_of, time_lag, lag))
