"""One incarnation of a partition after another: what is it, and what was left behind?

The ledger is told of a succession in the transaction that commits the first position of the new
incarnation. What the old topic still had is told as far as it was seen: nobody can ask a topic
that is gone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.copying.faults import TARGET_LOSSES, Fault, FaultReason, Span
from mirrorfleet.copying.loss import made_again
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import (
    ClusterId,
    PartitionIdentity,
    SourceOffset,
    TargetOffset,
    TopicId,
)
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.records import progress as progress_codec
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.incarnations import LossCause, offset_of
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.slots import ledger
from mirrorfleet.slots.ledger import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.events import Event
    from mirrorfleet.slots.leaders import Leaders
    from mirrorfleet.slots.runner import SlotRunner

LOOK_BACK: Final = 64
"""Snapshots of a slot that are looked through for a topic's last numbers: a minute of them."""
_READ_S: Final = 10.0
_ENDS_S: Final = 2.0
"""For all of it where a slot is taken: its partitions stand meanwhile."""
_MADE_AGAIN: Final = FaultReason.SOURCE_RECREATED
_History = tuple[ClusterId | int | str | TopicId, ...]


class Side(NamedTuple):
    """One end of a copy: what its topic was, and what is wrong when it is another one."""

    reason: FaultReason
    leaders: Leaders
    topic: str
    topic_id: TopicId


def _sides(runner: SlotRunner, entry: CatalogPartition) -> tuple[Side, Side]:
    source, target = FaultReason.SOURCE_RECREATED, FaultReason.TARGET_RECREATED
    identity = entry.identity
    return (
        Side(source, runner.sources, entry.source_topic, identity.source_topic_id),
        Side(target, runner.targets, entry.target_topic, identity.target_topic_id),
    )


def changed_sides(
    runner: SlotRunner, entry: CatalogPartition
) -> list[tuple[FaultReason, str, TopicId]]:
    """The sides on which another topic has the name now, as far as metadata is known."""
    found = [(side, side.leaders.topic_id(side.topic)) for side in _sides(runner, entry)]
    return [
        (side.reason, side.topic, now)
        for side, now in found
        if now is not None and now != side.topic_id and not was_before(runner, entry.identity, now)
    ]


def was_before(runner: SlotRunner, identity: PartitionIdentity, topic_id: TopicId) -> bool:
    """Whether an incarnation before was of that topic: ids never come back, so metadata that tells
    it is of a broker that lags, or a whole cluster was put back. `sync` tells which.
    """
    return any(
        topic_id in (one.source_topic_id, one.target_topic_id)
        for one in runner.slot.known
        if one.incarnation < identity.incarnation and one.partition == identity.partition
    )


def was_old(runner: SlotRunner, entry: CatalogPartition, reason: FaultReason) -> bool:
    """Whether the metadata was old that told of another topic: the one that was copied is there.

    A name that no topic has now says nothing.
    """
    is_back = any(
        side.leaders.topic_id(side.topic) == side.topic_id
        for side in _sides(runner, entry)
        if side.reason is reason
    )
    return is_back and not changed_sides(runner, entry)


async def look_twice(
    runner: SlotRunner, entries: Iterable[CatalogPartition]
) -> frozenset[FaultReason]:
    """Metadata that does not fit the catalog may only be old: renew it before anything is said.

    What may not be said, because the source is away: it is fetched from by topic id, and its
    refusals tell. Raises: DeadlineError: the target does not tell, and would take what is sent.
    """
    source, target = FaultReason.SOURCE_RECREATED, FaultReason.TARGET_RECREATED
    doubted: dict[FaultReason, list[PartitionIdentity]] = {source: [], target: []}
    for entry in entries:
        for reason, _, _ in changed_sides(runner, entry):
            doubted[reason].append(entry.identity)
    known: dict[FaultReason, bool] = {}
    for reason, leaders in ((target, runner.targets), (source, runner.sources)):
        about = doubted[reason]
        known[reason] = not about or await runner.freshness.is_younger(leaders, reason, about)
        if not known[target]:
            raise DeadlineError(f"{runner.link.target} does not tell which topics it has now.")
    return frozenset(reason for reason, is_known in known.items() if not is_known)


async def check_identity(
    runner: SlotRunner, partition: CopyPartition, unsure: Collection[FaultReason] = ()
) -> None:
    """Stop a partition whose topic is another one under the old name, on either side."""
    known = partition.fault.reason if partition.fault is not None else None
    changed = [one for one in changed_sides(runner, partition.entry) if one[0] not in unsure]
    for reason, topic, now in changed[:1]:
        if reason is known:
            continue  # found before, and looked into
        at = partition.committed.next_source
        lost = None
        if reason is FaultReason.SOURCE_RECREATED:
            lost = await unread(runner, partition.identity, at)
        text = made_again(f"topic {topic}", now, lost)
        runner.stop_partition(partition, Fault(reason, at, text, lost))


async def told(runner: SlotRunner, entries: Sequence[CatalogPartition]) -> list[Event]:
    """What the ledger is told with the first positions of these entries."""
    events = []
    for entry in entries:
        loss = entry.loss
        if loss is None:
            continue
        runner.mender.answered(loss.request)
        former = _former(runner, entry.identity)
        if loss.first is not None and loss.end is not None:
            span = Span(SourceOffset(loss.first), SourceOffset(loss.end))
        elif former is None:
            continue  # nothing of it was ever looked at
        else:
            span = await unread(runner, former, runner.slot.known[former].next_source)
        detail = loss.detail or f"{entry.source_topic} was deleted and created again"
        for kind, part in _parts(loss.cause, span, entry.start):
            records = loss.records if part == span else None  # how many each has nobody counted
            told_of = LedgerEntry(part, loss.cause, detail, loss.request, records, kind=kind)
            events.append(ledger.gap(runner, entry, told_of))
    return events


def _parts(cause: str, span: Span, start: str) -> list[tuple[EventKind, Span]]:
    """What of a loss nobody copies any more, and what is copied again from `start` on."""
    if cause == LossCause.REWOUND:
        return [(EventKind.REWOUND, span)]
    begin = offset_of(start)
    if cause not in TARGET_LOSSES or begin is None:
        return [(EventKind.GAP, span)]
    at = SourceOffset(min(max(begin, span.first), span.end))
    parts = [(EventKind.GAP, Span(span.first, at)), (EventKind.REWOUND, Span(at, span.end))]
    told_of = [(kind, part) for kind, part in parts if part.first < part.end]
    return told_of or [(EventKind.REWOUND, span)]


def _former(runner: SlotRunner, identity: PartitionIdentity) -> PartitionIdentity | None:
    """The incarnation before, by its position: of the same copy if there is one."""
    earlier = written_before(runner, identity) or [
        one
        for one in runner.slot.known
        if one.incarnation < identity.incarnation and _from(one) == _from(identity)
    ]
    return max(earlier, key=lambda one: one.incarnation, default=None)


async def not_followed(
    runner: SlotRunner, entries: Sequence[CatalogPartition]
) -> list[CatalogPartition]:
    """Those that no later incarnation has followed, by its position: a catalog that we read late
    may still have one that has ended, and a worker before us went on with the next.

    A later one of both topics has followed. One of one of them has if the other topic is gone: a
    rule that names its copies otherwise, and perhaps back again, has several of one source.

    Raises: MirrorfleetError: a side whose topics are not known yet does not answer.
    """
    latest: dict[_History, int] = {}
    for one in runner.slot.known:
        for of in (_from, _into, _both):
            latest[of(one)] = max(latest.get(of(one), 0), one.incarnation)

    def ended(entry: CatalogPartition, of: Callable[[PartitionIdentity], _History]) -> bool:
        return latest.get(of(entry.identity), 0) > entry.identity.incarnation

    targets = {e.target_topic for e in entries if ended(e, _from)}
    sources = {e.source_topic for e in entries if ended(e, _into)}
    for leaders, topics in ((runner.targets, targets), (runner.sources, sources)):
        if any(leaders.topic_id(topic) is None for topic in topics):
            await leaders.renewed()

    def is_followed(entry: CatalogPartition) -> bool:
        identity = entry.identity
        has_target = runner.targets.topic_id(entry.target_topic) == identity.target_topic_id
        has_source = runner.sources.topic_id(entry.source_topic) == identity.source_topic_id
        return (
            ended(entry, _both)
            or (ended(entry, _from) and not has_target)
            or (ended(entry, _into) and not has_source)
        )

    return [entry for entry in entries if not is_followed(entry)]


def _from(identity: PartitionIdentity) -> _History:
    """What all copies of a source partition have in common."""
    return identity.source_cluster, identity.partition, "source", identity.source_topic_id


def _into(identity: PartitionIdentity) -> _History:
    """What all have in common that was copied to a target partition from a source."""
    return identity.source_cluster, identity.partition, "target", identity.target_topic_id


def _both(identity: PartitionIdentity) -> _History:
    """What all have in common that were copied from and to the same topics."""
    return (*_from(identity), *_into(identity))


def written_before(runner: SlotRunner, identity: PartitionIdentity) -> list[PartitionIdentity]:
    """The incarnations that wrote to the same target partition before, the latest first."""
    earlier = [
        one
        for one in runner.slot.known
        if _into(one) == _into(identity) and one.incarnation < identity.incarnation
    ]
    return sorted(earlier, key=lambda one: one.incarnation, reverse=True)


def written_to(
    runner: SlotRunner, identity: PartitionIdentity, end: TargetOffset | None
) -> TargetOffset:
    """Up to where the incarnation before wrote to the same target partition; 0 without one.

    `end` is that of a target that is known to have been cut, so that it is not found once more.
    """
    earlier = written_before(runner, identity)
    if not earlier:
        return TargetOffset(0)
    copied = runner.slot.known[earlier[0]].next_target
    return copied if end is None else min(copied, end)


async def unread(runner: SlotRunner, identity: PartitionIdentity, first: SourceOffset) -> Span:
    """What a topic that is gone still had behind `first`, as far as it was seen."""
    ends = runner.slot.ends
    if identity not in ends:
        told_of = await last_told(runner)
        for one in {identity, *_gone(runner)} - ends.keys():  # each would read all of it again
            ends[one] = told_of[one].high_watermark if one in told_of else -1
    return Span(first, SourceOffset(max(first, ends[identity])))


def _gone(runner: SlotRunner) -> Iterator[PartitionIdentity]:
    """What is never copied again: other topics have the names, or other incarnations the place."""
    for identity, entry in runner.entries.items():
        if any(reason is _MADE_AGAIN for reason, _, _ in changed_sides(runner, entry)):
            yield identity
        former = _former(runner, identity) if entry.loss is not None else None
        if former is not None:  # `told` asks for it
            yield former


async def recall_ends(runner: SlotRunner) -> None:
    """What an owner before us saw of topics that are away now, as far as known.

    Made again, they tell nobody where they ended, and what we tell of them from now on hides what
    was told before. Who does not tell soon keeps nobody waiting.
    """
    away = [
        partition
        for partition in runner.slot.partitions.values()
        if partition.source.high_watermark < 0 and _is_away(runner, partition)
    ]
    found: dict[PartitionIdentity, PartitionProgress] = {}
    with suppress(MirrorfleetError, TimeoutError):
        async with asyncio.timeout(_ENDS_S):
            found = await last_told(runner) if away else {}
    for partition in away:
        if (told_of := found.get(partition.identity)) is not None:
            ends = partition.source
            ends.high_watermark, ends.log_start = told_of.high_watermark, told_of.log_start


def _is_away(runner: SlotRunner, partition: CopyPartition) -> bool:
    """Whether its source topic is, or another one may have its name and was not looked into."""
    now = runner.sources.topic_id(partition.entry.source_topic)
    is_other = now != partition.identity.source_topic_id
    return now is None or (is_other and partition.identity not in runner.slot.ends)


async def last_told(runner: SlotRunner) -> dict[PartitionIdentity, PartitionProgress]:
    """What the last snapshots of the slot say of each partition, whoever wrote them.

    One that was copied counts more than one that waits to begin: an owner tells of both. An end of
    the source outlives it: a topic that was made again shows no later owner where it ended.

    Raises: MirrorfleetError: the target does not answer.
    """
    at = runner.control_partition(ControlKind.PROGRESS)
    start = (await list_offsets(runner.target, {at: EARLIEST}, deadline_s=_READ_S))[at]
    end = (await list_offsets(runner.target, {at: LATEST}, deadline_s=_READ_S))[at]
    if isinstance(start, BrokerError):
        raise start
    if isinstance(end, BrokerError):
        raise end
    tail = PartitionTail(runner.target, at.topic)
    tail.start(at.partition, max(start.offset, end.offset - LOOK_BACK))
    seen: dict[PartitionIdentity, PartitionProgress] = {}
    try:
        while (begin := tail.next_offsets[at.partition]) < end.offset:
            for record in await tail.poll(deadline_s=_READ_S):
                found = progress_codec.decode(record.key, record.value)
                if isinstance(found, Progress):
                    _keep(seen, found)
            if tail.next_offsets[at.partition] == begin:
                # a log that lost its tail never comes there: who would write to it waits for us
                now = (await list_offsets(runner.target, {at: LATEST}, deadline_s=_READ_S))[at]
                end = end if isinstance(now, BrokerError) else min(end, now)
    finally:
        tail.close()
    return seen


def _keep(seen: dict[PartitionIdentity, PartitionProgress], snapshot: Progress) -> None:
    for one in snapshot.partitions:
        before = seen.get(one.identity)
        if before is None or one.records >= before.records:
            end = one.high_watermark
            if before is not None and end < 0:
                end = before.high_watermark
            seen[one.identity] = replace(one, high_watermark=end)
