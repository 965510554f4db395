"""One traced batch as spans: the hop, and under it its four stages, end to end.

    copy     ├──────────────────────────────────────────────┤
    fetch    ├───────┤
    queue            ├──────┤
    produce                 ├─────────┤
    commit                            ├────────── closing ──┤

Pure: stamps (monotonic seconds) and one reading of both clocks in, spans out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.records.traces import SampledBatch
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.spans import SpanRecord, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirrorfleet.copying.sampling import Copied, Stamps
    from mirrorfleet.runtime.log import TraceIds

_SPAN_IDS: Final = 1 << 64
KAFKA: Final = "kafka"


@dataclass(frozen=True, slots=True)
class Hop:
    """One batch over one link. `before` is what the hop before said of it, None: it begins here."""

    copied: Copied
    stamps: Stamps
    ids: TraceIds
    before: SampledBatch | None
    error: str = ""

    @property
    def number(self) -> int:
        """1 where the trace begins."""
        return 1 if self.before is None else self.before.hop + 1

    def announcement(self, now: float, now_ms: int) -> SampledBatch:
        """What the next hop needs to know."""
        identity = self.copied.partition.identity
        return SampledBatch(
            topic_id=identity.target_topic_id,
            partition=identity.partition,
            first=self.stamps.base,
            count=self.stamps.records,
            trace_id=self.ids.trace_id,
            span_id=self.ids.span_id,
            committed_ms=now_ms - round((now - self.copied.committed_at) * 1000),
            hop=self.number,
        )


def spans_of(hop: Hop, link: str, now: float, now_ms: int) -> list[SpanRecord]:
    """The hop's span and those of its stages. `now` and `now_ms` are of the same moment."""
    copied, ids = hop.copied, hop.ids

    def at_ns(stamp: float) -> int:
        return now_ms * 1_000_000 - round((now - stamp) * 1e9)

    began = _there_since(hop, now, now_ms)
    whole = SpanRecord(
        kind=names.COPY,
        subject=copied.partition.entry.source_topic,
        trace_id=ids.trace_id,
        span_id=ids.span_id,
        parent_id=None if hop.before is None else hop.before.span_id,
        start_ns=at_ns(began),
        end_ns=at_ns(copied.committed_at),
        attributes=_of_hop(hop, link),
        error=hop.error,
    )
    stages = [
        SpanRecord(
            kind=kind,
            subject=topic,
            trace_id=ids.trace_id,
            span_id=(ids.span_id + number) % _SPAN_IDS or _SPAN_IDS - 1,
            parent_id=ids.span_id,
            start_ns=at_ns(start),
            end_ns=at_ns(end),
            attributes=_of_stage(kind, topic, hop),
            events=_closing(kind, copied, at_ns),
            error=hop.error if kind is names.COMMITTING else "",
        )
        for number, (kind, topic, start, end) in enumerate(_stages(hop, began), start=1)
    ]
    return [whole, *stages]


def _stages(hop: Hop, began: float) -> tuple[tuple[names.Span, str, float, float], ...]:
    """(kind, topic, begin, end) of each, where one ends the next begins."""
    stamps, entry = hop.stamps, hop.copied.partition.entry
    return (
        (names.FETCH, entry.source_topic, began, stamps.fetched_at),
        (names.QUEUE, entry.target_topic, stamps.fetched_at, stamps.sent_at),
        (names.PRODUCE, entry.target_topic, stamps.sent_at, stamps.acked_at),
        (names.COMMITTING, entry.target_topic, stamps.acked_at, hop.copied.committed_at),
    )


def _there_since(hop: Hop, now: float, now_ms: int) -> float:
    """When the fetch of the batch began: asked for, and there to be had.

    A fetch waits at the broker for records to come, which is no part of a batch's way. There it is
    once the hop before has committed it, or else once its newest record was made. Those are other
    machines' clocks: they move the begin between asking and arrival, never beyond.
    """
    stamps = hop.stamps
    there_ms = stamps.max_timestamp if hop.before is None else hop.before.committed_ms
    there = now - (now_ms - there_ms) / 1000
    return min(max(stamps.asked_at, there), stamps.fetched_at)


def _closing(
    kind: names.Span, copied: Copied, at_ns: Callable[[float], int]
) -> tuple[tuple[str, int], ...]:
    return ((names.CLOSING, at_ns(copied.closing_at)),) if kind is names.COMMITTING else ()


def _of_hop(hop: Hop, link: str) -> dict[str, Value]:
    partition, stamps = hop.copied.partition, hop.stamps
    entry, identity = partition.entry, partition.identity
    found: dict[str, Value] = {
        **_of_stage(names.COPY, entry.source_topic, hop),
        names.LINK: link,
        names.SLOT: entry.slot,
        names.HOP: hop.number,
        names.PACE: stamps.pace,
        names.SOURCE_CLUSTER: identity.source_cluster,
        names.SOURCE_TOPIC: entry.source_topic,
        names.SOURCE_FIRST: stamps.first,
        names.SOURCE_NEXT: stamps.next_offset,
        names.TARGET_TOPIC: entry.target_topic,
        names.TARGET_FIRST: stamps.base,
        names.TARGET_NEXT: stamps.base + stamps.records,
        names.BATCH_BYTES: stamps.size,
        names.RECORD_TIME: stamps.max_timestamp,
    }
    if hop.error:
        found[names.ERROR_TYPE] = hop.error
    return found


def _of_stage(kind: names.Span, topic: str, hop: Hop) -> dict[str, Value]:
    stamps = hop.stamps
    of_source = kind in (names.COPY, names.FETCH)
    found: dict[str, Value] = {
        names.SYSTEM: KAFKA,
        names.OPERATION: kind.name,
        names.DESTINATION: topic,
        names.DESTINATION_PARTITION: str(hop.copied.partition.identity.partition),
        names.OFFSET: stamps.first if of_source else stamps.base,
        names.MESSAGES: stamps.records,
    }
    operation_type = names.OPERATION_TYPES.get(kind)
    if operation_type is not None:
        found[names.OPERATION_TYPE] = operation_type
    return found
