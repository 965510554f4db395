"""What the mirror counts, link by link: plain numbers that a scrape reads."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from mirrorfleet.copying.partition import Pace, Queued
from mirrorfleet.core.errors import FencedError
from mirrorfleet.records.events import EventKind
from mirrorfleet.runtime import metric_names as names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from contextlib import AbstractContextManager

    from mirrorfleet.copying.faults import Action
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.transaction import Transaction
    from mirrorfleet.core.errors import MirrorfleetError
    from mirrorfleet.core.ids import Link, SlotNumber
    from mirrorfleet.records.events import Event
    from mirrorfleet.runtime.metrics import Counter, Metrics
    from mirrorfleet.slots.tracing import LinkTraces


class LinkMeters:
    """Counters and histograms of one link; handles are kept, so that counting is an addition."""

    def __init__(self, metrics: Metrics, link: Link, traces: LinkTraces | None = None) -> None:
        self._metrics = metrics
        self._traces = traces
        self._link = str(link)
        self.fetched = metrics.counter(names.FETCHED_BYTES, self._link)
        self._propagation = metrics.histogram(names.PROPAGATION, self._link)
        self._age = metrics.histogram(names.BACKLOG_AGE, self._link)
        self._queue = metrics.histogram(names.STAGE, self._link, "queue")
        self._produce = metrics.histogram(names.STAGE, self._link, "produce")
        self._commit = metrics.histogram(names.COMMIT, self._link)
        self._commits = metrics.counter(names.TRANSACTIONS, self._link, "committed")
        # What alerts watch begins at 0: a series that begins with the first loss has not changed.
        self._gaps = metrics.counter(names.GAPS, self._link)
        self._short = metrics.counter(names.MAP_SHORT, self._link)
        metrics.counter(names.SLOT_LOSSES, self._link, FencedError.__name__)
        self._topics: dict[str, tuple[Counter, Counter]] = {}

    def acknowledged(
        self, partition: CopyPartition, queued: Queued, base_offset: int, now: float
    ) -> None:
        """A batch was appended: how long each stage took (seconds, monotonic stamps)."""
        self._queue.observe(queued.sent_at - queued.fetched_at)
        self._produce.observe(now - queued.sent_at)
        if queued.pace is Pace.LIVE:
            self._propagation.observe(now - queued.fetched_at, queued.batch.count)
        if self._traces is not None:
            self._traces.acknowledged(partition, queued, base_offset, now)

    def committed(self, transaction: Transaction, commit_s: float, now_ms: int) -> None:
        """A transaction was committed."""
        if self._traces is not None:
            self._traces.committed(transaction, commit_s)
        self._commits.value += 1
        self._commit.observe(commit_s)
        for partition, touch in transaction.touched.items():
            records, size = self._topic(partition.entry.source_topic)
            records.value += touch.records
            size.value += touch.size
            if touch.last_timestamp > 0:
                age_s = max(0.0, (now_ms - touch.last_timestamp) / 1000)
                self._age.observe(age_s, touch.records)

    def aborted(self, action: Action, slot: SlotNumber) -> AbstractContextManager[None]:
        """A transaction was aborted because of `action`; inside, log lines carry its trace."""
        self._metrics.counter(names.TRANSACTIONS, self._link, f"aborted-{action}").value += 1
        return nullcontext() if self._traces is None else self._traces.aborted(slot, action)

    def lost(self, error: MirrorfleetError) -> None:
        """A slot was lost."""
        self._metrics.counter(names.SLOT_LOSSES, self._link, type(error).__name__).value += 1

    def dropped(self, kind: str, count: int) -> None:
        """Records were left out by policy."""
        self._metrics.counter(names.DROPPED_RECORDS, self._link, kind).value += count

    def told(self, events: Iterable[Event]) -> None:
        """The ledger has these now."""
        self._gaps.value += sum(event.kind is EventKind.GAP for event in events)

    def map_short(self, partitions: int) -> None:
        """The offset map lacks something of so many."""
        self._short.value += partitions

    def totals(self) -> Iterator[tuple[str, int, int]]:
        """(topic, records, bytes) committed since the start."""
        for topic, (records, size) in self._topics.items():
            yield topic, records.value, size.value

    def keep_only(self, topics: Collection[str]) -> None:
        """Of the other topics there is nothing to copy any more; those that stay count on."""
        for topic in [each for each in self._topics if each not in topics]:
            del self._topics[topic]
            for metric in (names.RECORDS, names.BYTES):
                self._metrics.forget(metric, self._link, topic)

    def _topic(self, topic: str) -> tuple[Counter, Counter]:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = (
                self._metrics.counter(names.RECORDS, self._link, topic),
                self._metrics.counter(names.BYTES, self._link, topic),
            )
        return found
