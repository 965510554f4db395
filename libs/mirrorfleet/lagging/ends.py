"""When a source offset became readable, from samples of the source's end.

    end
     │                    ┌── point: the end was seen here from first_ms to last_ms
     │            ●───────●
     │           ╱                     the records between two points are taken to have come
     │     p ───╱─ ─ ─ ─ ─ ─ ─ ─        evenly between them: record p at the middle of its share
     │         ╱
     ●───────●
     └──────────────────────────> time

Nothing here looks at timestamps of records, so producers' clocks do not matter. A steady pace
costs two points: a sample that lies on the line is not kept, as long as every sample that was
left out is within `TOLERANCE_MS` of it (a "swinging door").
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

TOLERANCE_MS: Final = 100
MOST_POINTS: Final = 256
"""Beyond it every second point goes: what happened long ago is known less exactly."""
CLOCK_STEP_MS: Final = 5_000
"""A sample older than the last one by more means that the clock was set back."""


class EndHistory:
    """What was seen of one partition's end, from the position on."""

    __slots__ = ("_first", "_high", "_last", "_low", "_offsets")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._first: list[int] = []
        self._last: list[int] = []
        # slopes (ms per offset) between which a line from the last but one point may run
        self._low = self._high = 0.0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def end(self) -> int | None:
        """The end as last seen."""
        return self._offsets[-1] if self._offsets else None

    @property
    def seen_ms(self) -> int | None:
        """When the end was last seen."""
        return self._last[-1] if self._last else None

    @property
    def moved_ms(self) -> int | None:
        """When the end was first seen where it is now."""
        return self._first[-1] if self._first else None

    @property
    def begun_ms(self) -> int | None:
        """When the first end that is remembered was seen: all below it was readable by then."""
        return self._first[0] if self._first else None

    def seen(self, end: int, at_ms: int) -> None:
        """The end was `end` at a moment; an end that went back begins the history anew."""
        if self._last and at_ms < self._last[-1]:
            if self._last[-1] - at_ms <= CLOCK_STEP_MS:
                return
            self._clear()
        if self._offsets and end < self._offsets[-1]:
            self._clear()
        if self._offsets and end == self._offsets[-1]:
            self._last[-1] = at_ms
        elif self._on_the_line(end, at_ms):
            self._offsets[-1], self._first[-1], self._last[-1] = end, at_ms, at_ms
        else:
            self._append(end, at_ms)

    def readable_since(self, offset: int) -> int | None:
        """When a committed reader could first be given the record at `offset`, in ms.

        None when it is not there yet, or came before the first sample (see `reaches`).
        """
        at = bisect_right(self._offsets, offset) - 1
        if at < 0 or at + 1 >= len(self._offsets):
            return None
        begin = self._offsets[at]
        share = (offset - begin + 0.5) / (self._offsets[at + 1] - begin)
        return round(self._last[at] + (self._first[at + 1] - self._last[at]) * share)

    def reaches(self, offset: int) -> bool:
        """Whether the history begins at or below `offset`."""
        return bool(self._offsets) and self._offsets[0] <= offset

    def forget_below(self, offset: int) -> None:
        """Nothing below `offset` will be asked for again."""
        keep = bisect_right(self._offsets, offset) - 1
        if keep > 0:
            del self._offsets[:keep], self._first[:keep], self._last[:keep]

    def set_back(self, by_ms: int) -> None:
        """Our clock was: what was seen is as old as before."""
        self._first = [at_ms - by_ms for at_ms in self._first]
        self._last = [at_ms - by_ms for at_ms in self._last]

    def restore(self, offset: int, since_ms: int) -> None:
        """Begin with what an earlier process knew: the record at `offset` came at that moment."""
        for point in (offset, offset + 1):
            self.seen(point, since_ms)

    def _clear(self) -> None:
        self._offsets.clear()
        self._first.clear()
        self._last.clear()

    def _on_the_line(self, end: int, at_ms: int) -> bool:
        """Whether the last point may give way to this one; narrows the door when it may."""
        if len(self._offsets) < 2 or self._first[-1] != self._last[-1]:
            return False
        run, rise = end - self._offsets[-2], at_ms - self._last[-2]
        if not self._low <= rise / run <= self._high:
            return False
        self._low = max(self._low, (rise - TOLERANCE_MS) / run)
        self._high = min(self._high, (rise + TOLERANCE_MS) / run)
        return True

    def _append(self, end: int, at_ms: int) -> None:
        if self._offsets:
            run, rise = end - self._offsets[-1], at_ms - self._last[-1]
            self._low, self._high = (rise - TOLERANCE_MS) / run, (rise + TOLERANCE_MS) / run
        self._offsets.append(end)
        self._first.append(at_ms)
        self._last.append(at_ms)
        if len(self._offsets) > MOST_POINTS:
            # the first two bracket the position, the last two are the open door
            for points in (self._offsets, self._first, self._last):
                del points[2:-2:2]
