"""Rates from counters that are looked at now and then, and the time that they tell."""

from __future__ import annotations

from math import exp
from typing import Final

from mirrorfleet.lagging.ends import CLOCK_STEP_MS
from mirrorfleet.lagging.forecast import Backlog
from mirrorfleet.records.samples import FOREVER_MS

GAIN_S: Final = 40.0
"""What a gain is told by: several turns that a backlog waits for, and has."""
LATELY_S: Final = 6.0
"""What all backlogs of a worker gain together is told by: all of them take no turns."""
LONGEST_MS: Final = 7 * 86_400_000
"""What takes longer is not gained on: nobody waits for it."""
LEAST: Final = 1e-6
"""Less a second is none: a counter that stands still would else move for ever, if ever slower."""


class Rate:
    """Units a second, a moving average over about `memory_s`; None before two looks.

    In the beginning it is the plain average: a first look that met a burst counts as one look.
    """

    __slots__ = ("_at_ms", "_count", "_memory_s", "_weight", "value")

    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._count = self._at_ms = 0
        self._weight = 0.0
        """Of all that was seen, at most 1."""
        self.value: float | None = None

    def begin_anew(self) -> None:
        """The next look is the first one."""
        self._at_ms, self._weight, self.value = 0, 0.0, None

    def seen(self, count: int, at_ms: int) -> None:
        """The counter stood at `count`; one that went back begins anew."""
        passed_s = (at_ms - self._at_ms) / 1000
        if self._at_ms and -CLOCK_STEP_MS / 1000 < passed_s <= 0:
            return
        if self._at_ms and count >= self._count and passed_s > 0:
            now = (count - self._count) / passed_s
            faded = exp(-passed_s / self._memory_s)
            before = self._weight * faded
            self._weight = before + 1 - faded
            found = now + ((self.value or 0.0) - now) * before / self._weight
            self.value = found if found >= LEAST else 0.0
        else:
            self.begin_anew()
        self._count, self._at_ms = count, at_ms


class _Net:
    """By how many a second a backlog becomes fewer, over about `memory_s`; below 0 more."""

    __slots__ = ("arrival", "drain")

    def __init__(self, memory_s: float) -> None:
        self.drain, self.arrival = Rate(memory_s), Rate(memory_s)

    @property
    def records_s(self) -> float:
        """0 before two looks."""
        return (self.drain.value or 0.0) - (self.arrival.value or 0.0)

    def begin_anew(self) -> None:
        """Nothing of before counts."""
        self.drain.begin_anew()
        self.arrival.begin_anew()


class Gain:
    """How much faster a backlog is copied than records are appended to it.

    Backlogs of a worker take turns of seconds, so its rates are those of minutes; and of the time
    since it is copied: a stand before would else be in them for minutes. What it was lately says
    nothing of one backlog, but of all of a worker's together (`forecast`).
    """

    __slots__ = ("_lately", "_long")

    def __init__(self) -> None:
        self._long, self._lately = _Net(GAIN_S), _Net(LATELY_S)

    def copied(self, position: int, at_ms: int) -> None:
        """So far at that time."""
        self._long.drain.seen(position, at_ms)
        self._lately.drain.seen(position, at_ms)

    def appended(self, end: int, at_ms: int) -> None:
        """So far at that time."""
        self._long.arrival.seen(end, at_ms)
        self._lately.arrival.seen(end, at_ms)

    def stood(self) -> None:
        """Nothing waits, or it is not copied."""
        self._long.begin_anew()
        self._lately.begin_anew()

    def backlog(self, records: int) -> Backlog:
        """What waits, and how fast it becomes less."""
        return Backlog(records, self._long.records_s, self._lately.records_s)

    def eta_ms(self, records: int) -> int | None:
        """Until none of so many waits; None when that is never, or as good as never."""
        gain = self._long.records_s
        found = time_for_ms(records, gain) if gain > 0 else None
        return None if found is None or found > LONGEST_MS else found


def time_for_ms(records: int, rate: float) -> int | None:
    """Milliseconds; None for what takes as good as for ever."""
    took_ms = records / rate * 1000
    return round(took_ms) if took_ms < FOREVER_MS else None
