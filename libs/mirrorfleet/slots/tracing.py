"""Traces of a mirror's batches: one in a while, and all that the hop before traced.

    acknowledged ──> sampled? or the hop before traces? keep stamps ──> committed ──> spans
                                                                          └──> announced downstream

A link without telemetry has no `LinkTraces` at all. With it, a batch that is not traced costs one
comparison, or its stamps while the hop before traces. Spans are made after the commit.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from mirrorfleet.copying.sampling import (
    SENT_AT,
    Copied,
    Joined,
    Joins,
    Raw,
    SampleBudget,
    cooked,
    stamps_of,
)
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.traces import KEPT, SampledBatch
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import TraceIds, tracing
from mirrorfleet.slots.tracing_spans import Hop, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from mirrorfleet.copying.faults import Action
    from mirrorfleet.copying.partition import CopyPartition, Queued
    from mirrorfleet.copying.transaction import Transaction
    from mirrorfleet.core.ids import Link
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.runtime.metrics import Metrics
    from mirrorfleet.runtime.telemetry import Telemetry

Announcements = dict[SlotNumber, list[SampledBatch]]


class LinkTraces:
    """The traces of one link."""

    def __init__(
        self,
        link: Link,
        telemetry: Telemetry,
        metrics: Metrics,
        clock: Clock,
        *,
        budget: SampleBudget,
        announce: Callable[[SlotNumber, SampledBatch], None],
    ) -> None:
        self._link = str(link)
        self._telemetry = telemetry
        self._clock = clock
        self._budget = budget
        self._announce = announce
        self._joins = Joins()
        self._listening = False
        self._pending: dict[SlotNumber, dict[CopyPartition, list[Raw]]] = {}
        self._sampled: dict[SlotNumber, tuple[CopyPartition, Raw, TraceIds]] = {}
        self._begun = metrics.counter(names.TRACES, self._link, "here")
        self._joined = metrics.counter(names.TRACES, self._link, "before")

    # -- what the sender says

    def acknowledged(
        self, partition: CopyPartition, queued: Queued, base_offset: int, now: float
    ) -> None:
        """A batch was appended at `base_offset` of the target."""
        listening = self._listening and self._joins.wants(partition, queued.pace)
        if now < self._budget.next_at and not listening:
            return
        stamps = stamps_of(queued, base_offset, now)
        slot = partition.entry.slot
        if listening:
            pending = self._pending.get(slot)
            if pending is None:
                pending = self._pending[slot] = {}
            batches = pending.get(partition)
            if batches is None:
                pending[partition] = [stamps]
            else:
                batches.append(stamps)
        if now >= self._budget.next_at and self._may_begin(slot, partition, now):
            self._sampled[slot] = (partition, stamps, _fresh_ids())

    def _may_begin(self, slot: SlotNumber, partition: CopyPartition, now: float) -> bool:
        """Whether a trace begins here: not where the hop before decides."""
        if slot in self._sampled or self._joins.follows(partition.identity.source_topic_id, now):
            return False
        return self._budget.take(now)

    def committed(self, transaction: Transaction, commit_s: float) -> None:
        """A transaction is visible now; its commit took `commit_s` of that."""
        if not self._sampled and not self._pending:
            return
        slot = next(iter(transaction.touched)).entry.slot if transaction.touched else None
        if slot is None:
            return
        now = self._clock.monotonic()
        sampled = self._sampled.pop(slot, None)
        if sampled is not None and cooked(sampled[1]).sent_at >= transaction.opened_at:
            partition, raw, ids = sampled
            copied = Copied(partition, [raw], now - commit_s, now)
            self._begun.value += 1
            self._emit(Hop(copied, cooked(raw), ids, None))
        for partition, batches in self._pending.pop(slot, {}).items():
            # What an interrupted transaction left behind was sent before this one began.
            kept = [each for each in batches if each[SENT_AT] >= transaction.opened_at]
            if kept:
                self._join(self._joins.copied(Copied(partition, kept, now - commit_s, now)))
        self._listening = self._joins.listening(now)

    def aborted(self, slot: SlotNumber, action: Action) -> AbstractContextManager[None]:
        """What was traced of the slot's transaction failed; inside, log lines say which trace."""
        self._pending.pop(slot, None)
        sampled = self._sampled.pop(slot, None)
        if sampled is None:
            return nullcontext()
        partition, raw, ids = sampled
        now = self._clock.monotonic()
        copied = Copied(partition, [raw], now, now)
        self._begun.value += 1
        self._emit(Hop(copied, cooked(raw), ids, None, error=f"aborted-{action}"))
        return tracing(ids)

    # -- what the hop before says

    def announced(self, batches: Iterable[SampledBatch]) -> None:
        """The hop before traced these: join what was copied of them, wait for the others."""
        now = self._clock.monotonic()
        self._join(self._joins.announced(batches, now))
        self._listening = self._joins.listening(now)

    def _join(self, found: Iterable[Joined]) -> None:
        for joined in found:
            self._joined.value += 1
            ids = TraceIds(joined.before.trace_id, _fresh_ids().span_id)
            self._emit(Hop(joined.copied, joined.stamps, ids, joined.before))

    def _emit(self, hop: Hop) -> None:
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._telemetry.offer(spans_of(hop, self._link, now, now_ms))
        if not hop.error:
            slot = hop.copied.partition.entry.slot
            self._announce(slot, hop.announcement(now, now_ms))


class Announcer:
    """What this process traced last, slot by slot, until it is written for the next hop."""

    def __init__(self) -> None:
        self._last: Announcements = {}
        self._new: dict[SlotNumber, None] = {}
        self.heard: Callable[[], None] = lambda: None

    def add(self, slot: SlotNumber, batch: SampledBatch) -> None:
        """A batch was traced and is visible on the target."""
        last = self._last.setdefault(slot, [])
        last.append(batch)
        del last[:-KEPT]
        self._new[slot] = None
        self.heard()

    def take(self) -> Announcements:
        """The slots with news; each with all that is to be written of it."""
        slots, self._new = self._new, {}
        return {slot: self._last[slot] for slot in slots}


def _fresh_ids() -> TraceIds:
    """Random and never 0, as W3C Trace Context wants them."""
    trace_id = int.from_bytes(os.urandom(16), "big") or 1
    return TraceIds(trace_id, int.from_bytes(os.urandom(8), "big") or 1)
