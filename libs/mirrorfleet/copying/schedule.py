"""When a transaction ends, how deep the pipeline is, how long to wait after an abort.

Each commit writes one marker to every partition that it touched, so the interval comes from a
budget of markers per second shared by the slots of a process, not from a constant: a few busy
partitions commit every 15 ms, a thousand trickling ones about every half second.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

CONTROL_PARTITIONS = 2
"""The positions and the segments partition: part of every transaction."""
SLOW_ANSWER_S: Final = 2.0
"""Bytes that are asked for hold memory until they come, so a slow source is asked for less at once.
Longer than it may hold an answer back, and than 1 MB takes at 200 KB a round trip of 200 ms."""
LONGEST_BYTES: Final = 64 << 20
"""Of one transaction: an abort never repeats much."""
CALM_S: Final = 30.0
"""Several times the longest wait: what goes wrong after so long has another cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    """Seconds and markers; the defaults keep p50 near 20 ms where few partitions are busy."""

    markers_per_second: float = 2_000.0
    shortest_s: float = 0.015
    longest_s: float = 1.0
    busy_s: float = 0.2
    """Behind the source a transaction may stay open this long: fewer, larger commits."""
    hard_s: float = 5.0
    """Longest transaction; well under transaction.timeout (15 s)."""
    gather_share: float = 0.5
    """Of the time that a commit takes, between two of them while little comes."""


def commit_interval(markers_per_round: float, policy: CommitPolicy) -> float:
    """Seconds between commits of a slot when one commit of every slot writes that many markers."""
    wanted = markers_per_round / policy.markers_per_second
    return min(max(wanted, policy.shortest_s), policy.longest_s)


def must_close(age_s: float, interval_s: float, policy: CommitPolicy) -> bool:
    """Whether a transaction ends although more data waits to be sent."""
    return age_s >= max(interval_s, policy.busy_s)


def busy_for(overhead_s: float, policy: CommitPolicy) -> float:
    """Seconds that a transaction takes what keeps coming, when its first requests and its end cost
    `overhead_s`: twice that, or a target that is slow would be asked for ever smaller commits.
    """
    return min(max(policy.busy_s, 2 * overhead_s), policy.hard_s / 2)


def may_close(age_s: float, interval_s: float) -> bool:
    """Whether a transaction ends because nothing waits to be sent."""
    return age_s >= interval_s


class MarkerShare:
    """Moving average of the markers that a commit of each slot writes."""

    __slots__ = ("_average",)

    def __init__(self) -> None:
        self._average: dict[int, float] = {}

    def committed(self, slot: int, partitions: int) -> None:
        """A commit of `slot` touched that many data partitions."""
        old = self._average.get(slot)
        markers = float(partitions + CONTROL_PARTITIONS)
        self._average[slot] = markers if old is None else old + (markers - old) / 8

    def idle(self, slot: int) -> None:
        """The slot has nothing to commit."""
        self._average.pop(slot, None)

    @property
    def per_round(self) -> float:
        """Markers when every slot commits once."""
        return sum(self._average.values())


class Depth:
    """Requests in flight on one produce connection: halved by an abort, grown by commits."""

    __slots__ = ("_limit", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = most

    @property
    def limit(self) -> int:
        """How many requests may wait for their answer."""
        return self._limit

    @property
    def refill(self) -> int:
        """Fill up again from here: one look for several answers costs less than one for each."""
        return self._limit * 3 // 4

    def aborted(self) -> None:
        """Trouble: half as deep."""
        self._limit = max(1, self._limit // 2)

    def committed(self) -> None:
        """Fine: one deeper, up to the limit."""
        self._limit = min(self._most, self._limit + 1)


def backoff_s(failures: int, jitter: float) -> float:
    """Seconds to wait after that many failures in a row; `jitter` is a number in 0..1."""
    base = min(0.05 * float(2 ** min(failures, 7)), 5.0)
    return base * (0.5 + jitter / 2)


class Setbacks:
    """Aborts and interruptions in a row; a commit of data ends the row, and so does a calm time.

    They outlive the producer id: with v1 each abort is a new one.
    """

    __slots__ = ("_count", "_last_at")

    def __init__(self) -> None:
        self._count = 0
        self._last_at = -inf

    def another(self, now: float) -> None:
        """One more, at this moment (monotonic seconds)."""
        self._count = 1 if now - self._last_at > CALM_S else self._count + 1
        self._last_at = now

    def over(self) -> None:
        """Data was committed."""
        self._count = 0

    def wait_s(self, jitter: float) -> float:
        """As `backoff_s`; nothing is waited for without one."""
        return backoff_s(self._count, jitter) if self._count else 0.0


class FetchWindow:
    """How many bytes the next fetch may bring: doubled by full answers, halved by small or slow
    ones.

    An idle long poll then holds no more of the memory budget than `least`, a busy one fetches in
    large pieces.
    """

    __slots__ = ("_least", "_most", "size")

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = max(least, most)
        self.size = least

    def answered(self, size: int, took_s: float) -> None:
        """An answer of `size` bytes came."""
        if took_s > SLOW_ANSWER_S or size * 4 < self.size:
            self.size = max(self.size // 2, self._least)
        elif size * 4 >= self.size * 3:
            self.size = min(self.size * 2, self._most)
