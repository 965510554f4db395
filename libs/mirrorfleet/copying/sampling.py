"""Which batches are traced, and how a hop finds the trace of the hop before it.

    hop 1   a ──> b    announces on b: offsets [first, first + count) belong to trace T
    hop 2   b ──> c    its source offsets are those: the batch that holds `first` joins T

An announcement comes a moment after its batch, or, when this hop lags, before it. So the last
batches copied are remembered as well as the announcements that still wait for their batch; both
are bounded, and what falls out is simply not joined.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from mirrorfleet.copying.partition import Pace
from mirrorfleet.core.ids import SourceOffset, TargetOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.copying.partition import CopyPartition, Queued
    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.records.traces import SampledBatch

REMEMBERED: Final = 4_096
"""Batches copied last: a quarter of a second at a gigabyte a second, minutes at usual rates."""
WAITING: Final = 1_024
"""Partitions with announcements whose batch was not copied yet."""
WAITING_EACH: Final = 32
"""Announcements of one partition that wait."""
FOLLOWED_S: Final = 60.0
"""So long after an announcement its topic is traced by the choice of the hop before only."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Stamps(NamedTuple):
    """What an acknowledged batch was and when it passed each stage (monotonic seconds).

    asked ── fetch ──> fetched ── queue ──> sent ── produce ──> acked ── commit ──> (committed)
    """

    first: SourceOffset
    next_offset: SourceOffset
    base: TargetOffset
    records: int
    size: int
    max_timestamp: int
    pace: str
    asked_at: float
    fetched_at: float
    sent_at: float
    acked_at: float


class Copied(NamedTuple):
    """Batches of one partition whose transaction was committed, in order.

    `closing_at`: when all data of the transaction was acknowledged.
    """

    partition: CopyPartition
    batches: list[Raw]
    closing_at: float
    committed_at: float


class Joined(NamedTuple):
    """A batch of ours, one of `copied`, and what the hop before said of it."""

    copied: Copied
    stamps: Stamps
    before: SampledBatch


Raw = tuple[int, int, int, int, int, int, str, float, float, float, float]
"""The fields of `Stamps`: half the cost, where nearly all of them are never looked at."""
SENT_AT: Final = 9
"""Place of `Stamps.sent_at`."""


def stamps_of(queued: Queued, base: int, acked_at: float) -> Raw:
    """The stamps of a batch that was appended at `base`; nothing of its payload is kept."""
    batch = queued.batch
    return (
        batch.first,
        batch.next_offset,
        base,
        batch.count,
        batch.size,
        batch.max_timestamp,
        queued.pace,
        queued.lease.asked_at or queued.fetched_at,
        queued.fetched_at,
        queued.sent_at,
        acked_at,
    )


def cooked(raw: Raw) -> Stamps:
    """The same with names."""
    return Stamps(SourceOffset(raw[0]), SourceOffset(raw[1]), TargetOffset(raw[2]), *raw[3:])


class SampleBudget:
    """At most `per_second` batches a second, evenly; with 0 none."""

    def __init__(self, per_second: float) -> None:
        self._pause_s = 1 / per_second if per_second > 0 else float("inf")
        self.next_at = 0.0 if per_second > 0 else float("inf")

    def take(self, now: float) -> bool:
        """Whether a batch may be traced now."""
        if now < self.next_at:
            return False
        self.next_at = now + self._pause_s
        return True


class Joins:
    """What the hop before traced, against what this hop copied last; one link's."""

    def __init__(self) -> None:
        self._copied: deque[Copied] = deque()
        self._remembered = 0
        self._waiting: dict[tuple[TopicId, int], list[SampledBatch]] = {}
        self._seen: dict[int, None] = {}
        self._topics: dict[TopicId, float] = {}
        self._heard_at = float("-inf")

    def listening(self, now: float) -> bool:
        """Whether the hop before traces at all, so that batches must be remembered."""
        return now - self._heard_at < FOLLOWED_S

    def wants(self, partition: CopyPartition, pace: str) -> bool:
        """Whether a batch copied at that pace may be joined.

        What is live is announced a moment after it was copied, what is old was announced long ago.
        """
        if pace == Pace.LIVE:
            return True
        identity = partition.identity
        return bool(self._waiting) and (
            (identity.source_topic_id, identity.partition) in self._waiting
        )

    def follows(self, topic: TopicId, now: float) -> bool:
        """Whether the hop before chooses which batches of this source topic are traced."""
        return now - self._topics.get(topic, float("-inf")) < FOLLOWED_S

    def announced(self, batches: Iterable[SampledBatch], now: float) -> list[Joined]:
        """Batches of ours that these announcements mean; one that was heard before is no news."""
        found = []
        for batch in batches:
            if batch.span_id in self._seen:
                continue
            self._seen[batch.span_id] = None
            self._heard_at = self._topics[batch.topic_id] = now
            joined = self._remembered_for(batch)
            if joined is not None:
                found.append(joined)
            else:
                waiting = self._waiting.setdefault((batch.topic_id, batch.partition), [])
                waiting.append(batch)
                del waiting[:-WAITING_EACH]
        _shorten(self._seen, REMEMBERED)
        _shorten(self._waiting, WAITING)
        _shorten(self._topics, WAITING)
        return found

    def copied(self, copied: Copied) -> list[Joined]:
        """Those of these batches that were announced already."""
        self._copied.append(copied)
        self._remembered += len(copied.batches)
        while self._remembered > REMEMBERED and len(self._copied) > 1:
            self._remembered -= len(self._copied.popleft().batches)
        identity = copied.partition.identity
        key = (identity.source_topic_id, identity.partition)
        waiting = self._waiting.get(key)
        if not waiting:
            return []
        passed = cooked(copied.batches[-1]).next_offset
        self._waiting[key] = [batch for batch in waiting if batch.first >= passed]
        if not self._waiting[key]:
            del self._waiting[key]
        found = (_find(copied, batch) for batch in waiting if batch.first < passed)
        return [joined for joined in found if joined is not None]

    def _remembered_for(self, batch: SampledBatch) -> Joined | None:
        for copied in reversed(self._copied):
            identity = copied.partition.identity
            if (identity.partition, identity.source_topic_id) == (batch.partition, batch.topic_id):
                joined = _find(copied, batch)
                if joined is not None:
                    return joined
        return None


def _find(copied: Copied, batch: SampledBatch) -> Joined | None:
    """The batch of ours in which the announced one begins."""
    at = bisect_right(copied.batches, batch.first, key=itemgetter(0)) - 1
    if at < 0:
        return None
    stamps = cooked(copied.batches[at])
    return Joined(copied, stamps, batch) if batch.first < stamps.next_offset else None


def _shorten(table: dict[_Key, _Value], most: int) -> None:
    """Forget the oldest entries beyond `most`."""
    for key in list(islice(table, max(0, len(table) - most))):
        del table[key]
