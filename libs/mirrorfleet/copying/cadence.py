"""When a slot begins a transaction, what goes into it, and when it ends: pure decisions.

    trickle   gather ─> send what came ─> acknowledged ─> positions ─> EndTxn ─> gather ...
    flow               send what came ─> acknowledged ─> positions ─> EndTxn ─> send ...
    backlog            send what comes, pipelined, as long as it may ─> ... ─> EndTxn

A record is visible at the end of its transaction, so a transaction that waits for more costs each
record in it that time. Waiting is done before, while no transaction is open: the target writes the
markers of the one before in that time, and a gathered batch costs as much as a single record.
Nothing here touches the order in which data, positions and the end of a transaction are sent.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.schedule import CommitPolicy, may_close

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.copying.partition import CopyPartition

MUCH: Final = 1 << 20
"""Bytes that wait: worth a transaction, whatever it costs."""
REST_SHARE: Final = 0.5
"""Of the commit interval that a live fetch rests: what comes in the meantime could hardly have
become visible earlier, and would cost the source a request for each record."""
REST_MOST_S: Final = 0.25
"""A broker reads the log of every partition of a session for each fetch: of a thousand trickling
ones that is most of what it does, and commits are half a second apart."""


class Supply(Enum):
    """How what is at hand compares with what the source has."""

    TRICKLE = "trickle"
    """All is at hand, and it is little."""
    FLOW = "flow"
    """All is at hand, and it is much."""
    BACKLOG = "backlog"
    """The source has more: what counts is how fast it is copied."""


def supply_of(partitions: Iterable[CopyPartition]) -> Supply:
    """Judged by the last answers of the source for the partitions that wait or are in hand."""
    queued = 0
    for partition in partitions:
        if not partition.at_end:
            return Supply.BACKLOG
        queued += partition.queued_bytes
    return Supply.FLOW if queued >= MUCH else Supply.TRICKLE


def rest_s(interval_s: float, answer_bytes: int, window_bytes: int) -> float:
    """Seconds from one live fetch to the next one, when its answer was small."""
    if answer_bytes * 4 >= window_bytes:
        return 0.0
    return min(interval_s * REST_SHARE, REST_MOST_S)


class Cadence:
    """The rhythm of one slot. Times are seconds, monotonic."""

    __slots__ = ("_began_at", "_ended_at", "_policy", "overhead_s")

    def __init__(self, policy: CommitPolicy) -> None:
        self._policy = policy
        self._began_at = self._ended_at = -inf
        self.overhead_s = 0.0
        """What the beginning and the end of a transaction take lately."""

    def began(self, now: float) -> None:
        """A transaction begins."""
        self._began_at = now

    def committed(self, now: float, overhead_s: float) -> None:
        """It ended; its first requests and its end took that long."""
        self._ended_at = now
        self.overhead_s += (overhead_s - self.overhead_s) / 4

    def pause_s(self, now: float, interval_s: float, supply: Supply) -> float:
        """How long to gather before the next transaction; 0 or less: begin.

        Commits of a slot are `interval_s` apart (the budget of markers), and a target gets as
        much time without us as the last commits cost it: one that is slow is asked less often.
        """
        if supply is not Supply.TRICKLE:
            return 0.0
        rest = min(self.overhead_s * self._policy.gather_share, self._policy.longest_s)
        return max(self._began_at + interval_s, self._ended_at + rest) - now

    def takes_until(self, opened_at: float, supply: Supply) -> float:
        """What was fetched up to then belongs into the transaction that was opened at that time."""
        return inf if supply is Supply.BACKLOG else opened_at

    def may_close(self, age_s: float, interval_s: float, supply: Supply) -> bool:
        """Whether a transaction ends when nothing waits that belongs into it."""
        return supply is not Supply.BACKLOG or may_close(age_s, interval_s)
