"""How fast a log's begin, where retention by size shows, comes nearer to a position. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.lagging.rate import Rate, time_for_ms
from mirrorfleet.records.progress import FAULTED, PAUSED, STARTING, UNREACHABLE, WAITING

if TYPE_CHECKING:
    from mirrorfleet.records.progress import PartitionProgress

LOG_START_S: Final = 600.0
"""Retention works in steps of whole segments, minutes apart."""
_UNFETCHED: Final = frozenset({WAITING, UNREACHABLE, STARTING, FAULTED, PAUSED})
"""States in which the mirror tells the begin of its last answer again: it moves on unseen."""


class LogStart:
    """The begin of one source partition, as answers to fetches told it."""

    __slots__ = ("_begin", "_rate", "_seen_ms")

    def __init__(self) -> None:
        self._rate = Rate(LOG_START_S)
        self._begin = self._seen_ms = 0

    def told(self, progress: PartitionProgress, rated_ms: int, at_ms: int) -> None:
        """The mirror spoke at `at_ms`; `rated_ms` is that by the broker's clock, for rates."""
        if progress.log_start >= 0 and progress.state not in _UNFETCHED:
            self._rate.seen(progress.log_start, rated_ms)
            self._begin, self._seen_ms = progress.log_start, at_ms

    def reaches_ms(self, said: PartitionProgress, as_of_ms: int) -> int | None:
        """Until it has come to the position, at the pace that was seen last; None if unknown.

        It did not stand still since: what nobody fetches is deleted all the same. A new owner tells
        none before it fetches.
        """
        advance = self._rate.value
        if not advance:
            return None
        left_ms = time_for_ms(max(0, said.next_source - self._begin), advance)
        return None if left_ms is None else max(0, left_ms - max(0, as_of_ms - self._seen_ms))
