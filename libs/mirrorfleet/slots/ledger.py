"""The gap ledger: what is lost is told in the transaction that moves the position past it.

So a position never moves silently, and the ledger never tells of a move that did not happen.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.copying.faults import Span
from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.kafka.offsets import OffsetSpec, list_offsets
from mirrorfleet.records import events as event_codec
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import entries
from mirrorfleet.slots.outgoing import ControlEntry
from mirrorfleet.wire.records import control_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.positions import Position
    from mirrorfleet.records.segments import Segment
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.wire.copybatch import FaultKind

_ANY_TIME: Final = OffsetSpec(0)
_TIMES_S: Final = 5.0
DROPS_TOLD: Final = 500
"""Ranges of drops in one commit; with more, what is near becomes one. They are one batch, for a
partition that is twice in a request loses one, and some 700 bytes each: 1 MB is what a topic takes.
"""

_log = logger(__name__)


class LedgerEntry(NamedTuple):
    """What the ledger says of a range; `records` only where provable, times in ms."""

    span: Span
    cause: str
    detail: str
    request: str = ""
    records: int | None = None
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    kind: EventKind = EventKind.GAP


def control_entries(
    runner: SlotRunner,
    positions: Sequence[Position],
    segment: Segment | None,
    events: Sequence[Event] = (),
) -> list[ControlEntry]:
    """Positions, the segment when there is one, and what they pass, as batches to send."""
    made = entries.control_entries(runner, positions, segment)
    told = [*events, *_left_out(runner, positions), *_dropped(runner, positions)]
    if told:
        made.append(event_entry(runner, told))
    return made


def event_entry(runner: SlotRunner, events: Sequence[Event]) -> ControlEntry:
    """Entries of the ledger as a batch to send."""
    batch = control_batch([event_codec.encode(each) for each in events], runner.clock.now_ms())
    return ControlEntry(place(runner), batch, events)


def is_open(runner: SlotRunner) -> bool:
    """Whether it can be told now; in vain, all that the slot has fetched would be taken back."""
    at, targets = place(runner), runner.targets
    is_led = targets.of(*at) is not None and not targets.has_few(*at)
    return is_led and at not in runner.doubts.doubted


def must_wait(runner: SlotRunner, partition: CopyPartition) -> bool:
    """Whether a commit of it would have something to tell that cannot be told now: others go on."""
    return bool(partition.dropped or partition.left_out) and not is_open(runner)


def place(runner: SlotRunner) -> TopicPartition:
    """Where the ledger is, of all slots."""
    return TopicPartition(control_topic(runner.fleet, ControlKind.EVENTS), 0)


def _left_out(runner: SlotRunner, positions: Sequence[Position]) -> Iterator[Event]:
    """What these positions pass of records that were left out."""
    for position in positions:
        partition = runner.slot.partitions.get(position.identity)
        if partition is None or not partition.left_out:
            continue
        for each in partition.passed(position.next_source):
            told = LedgerEntry(each.span, each.cause, each.detail, each.request, records=1)
            yield gap(runner, partition.entry, told)


def _dropped(runner: SlotRunner, positions: Sequence[Position]) -> Iterator[Event]:
    """What these positions pass of records that policy dropped; nothing is forgotten before the
    commit, for an aborted one has told nobody.
    """
    passed: list[tuple[CopyPartition, FaultKind, list[SourceOffset]]] = []
    for position in positions:
        partition = runner.slot.partitions.get(position.identity)
        if partition is None or not partition.dropped:
            continue
        by_kind: dict[FaultKind, list[SourceOffset]] = {}
        for drop in partition.drops_passed(position.next_source):
            by_kind.setdefault(drop.kind, []).append(drop.offset)
        passed += [(partition, kind, offsets) for kind, offsets in by_kind.items()]
    widest = _joined_over([offsets for _, _, offsets in passed])
    for partition, kind, offsets in passed:
        for span, records in _ranges(offsets, widest):
            some = "" if records == span.end - span.first else f"{records} records of this range"
            told = LedgerEntry(span, kind, some, records=records, kind=EventKind.RECORDS_DROPPED)
            yield _event(runner, partition.entry, told)


def _joined_over(groups: Sequence[Sequence[SourceOffset]]) -> int:
    """How many offsets may lie between two drops of one range, so that few enough are told."""
    between = [b - a - 1 for offsets in groups for a, b in pairwise(offsets) if b - a > 1]
    apart = max(0, DROPS_TOLD - len(groups))
    return sorted(between, reverse=True)[apart] if len(between) > apart else 0


def _ranges(offsets: Sequence[SourceOffset], widest: int) -> Iterator[tuple[Span, int]]:
    """Ascending offsets as ranges, with how many of them are in each."""
    begins = [0, *(n for n, (a, b) in enumerate(pairwise(offsets), 1) if b - a - 1 > widest)]
    for begin, end in pairwise([*begins, len(offsets)]):
        yield Span(offsets[begin], SourceOffset(offsets[end - 1] + 1)), end - begin


def forget_drops(runner: SlotRunner, positions: Sequence[Position]) -> int:
    """The commit that told of drops is done: how many there were."""
    found = (runner.slot.partitions.get(position.identity) for position in positions)
    return sum(each.forget_dropped() for each in found if each is not None and each.dropped)


def gap(runner: SlotRunner, entry: CatalogPartition, told: LedgerEntry) -> Event:
    """An entry of the ledger, and a line in the log."""
    _log.warning(
        "%s %s: %s",
        told.kind,
        told.span,
        told.detail,
        extra=fields(
            link=str(runner.link),
            topic=entry.source_topic,
            partition=entry.identity.partition,
            offset=told.span.first,
        ),
    )
    return _event(runner, entry, told)


def _event(runner: SlotRunner, entry: CatalogPartition, told: LedgerEntry) -> Event:
    return Event(
        kind=told.kind,
        time_ms=runner.clock.now_ms(),
        writer=runner.owner,
        detail=told.detail,
        cause=told.cause,
        link=runner.link,
        topic=entry.source_topic,
        partition=entry.identity.partition,
        first=told.span.first,
        end=told.span.end,
        records=told.records,
        first_time_ms=told.first_time_ms,
        last_time_ms=told.last_time_ms,
        request=told.request or None,
    )


async def times(runner: SlotRunner, partition: CopyPartition) -> tuple[int | None, int | None]:
    """Timestamps of the last record before a range that retention took, and of the first after it.

    Either is None where nobody knows it: a worker that has copied nothing yet, an empty log.
    """
    before = partition.last_timestamp if partition.last_timestamp >= 0 else None
    at = partition.entry.source
    try:
        found = (await list_offsets(runner.source, {at: _ANY_TIME}, deadline_s=_TIMES_S))[at]
    except MirrorfleetError as error:
        _log.info("no time of the first record", extra=fields(error=str(error)))
        return before, None
    if isinstance(found, BrokerError) or found.timestamp < 0:
        return before, None
    return before, found.timestamp
