"""What the target lost of a copy: found by its own numbers, and exactly, by the map's checksums.

    another topic has the name      everything that the map has is missing
    the log ends below the copy     what the map has behind the last payload that is still there

The source range that copying would have to go back to follows from the map, of all incarnations
that wrote to the same topic: a cut may be deeper than where the last one began. A target whose
stored bytes are not those that were written (recompressed, compacted) cannot be compared: then
nobody guesses, and the partition waits for a word.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets, log_bounds
from mirrorfleet.kafka.stored import stored_batches
from mirrorfleet.offsets.agreement import Payload, kept_to
from mirrorfleet.offsets.gone import Written, gone, in_force
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import succession
from mirrorfleet.wire.batch import HEADER_SIZE
from mirrorfleet.wire.checksum import crc32c
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.slots.runner import SlotRunner

FIRST_WINDOW: Final = 4_096
"""Target offsets that are compared first, from the end; ten times more as long as none agrees."""
MOST_WINDOW: Final = 100 * FIRST_WINDOW
"""What is compared is in memory, some 100 MB at most; a log may be a thousand times as long."""

ENDS_S: Final = 2.0
"""For the ends of the copies; a slot that is taken stands still until they are known."""

_log = logger(__name__)


class _UnknownError(MirrorfleetError):
    """Raised when the target's bytes do not tell what is missing."""


async def check_ends(runner: SlotRunner, partitions: Sequence[CopyPartition]) -> None:
    """Stop a partition whose target log ends below what was committed.

    Two looks at the leader of the current epoch must agree: a stale one ends lower, too. Whoever
    cannot tell now keeps nobody waiting: the first append below the last one tells as well.
    """
    copied = [
        p
        for p in partitions
        if p.committed.next_target > 0 and may_lack(p) and not runner.targets.lacks(*p.target)
    ]
    short = await _short(runner, copied)
    if short:
        await runner.targets.renew()
        again = await _short(runner, list(short))
        for partition, end in again.items():
            committed = partition.committed
            text = f"{partition.target} ends at {end}, but was copied up to {committed.next_target}"
            fault = Fault(FaultReason.TARGET_TRUNCATED, committed.next_source, text)
            runner.stop_partition(partition, fault)


def may_lack(partition: CopyPartition) -> bool:
    """Whether it is looked for what its target lost: not where that, or as much, is known already.

    One that stands for a while counts, too: nobody would ask again when it goes on.
    """
    return partition.fault is None or partition.fault.reason.heals


async def _short(
    runner: SlotRunner, partitions: Sequence[CopyPartition]
) -> dict[CopyPartition, int]:
    """Partitions whose target ends below the copy, and where."""
    if not partitions:
        return {}
    asked = {p.target: LATEST for p in partitions}
    ends = await list_offsets(
        runner.target, asked, isolation=Isolation.READ_UNCOMMITTED, deadline_s=ENDS_S
    )
    found = {}
    for partition in partitions:
        end = ends[partition.target]
        if not isinstance(end, BrokerError) and end.offset < partition.committed.next_target:
            found[partition] = end.offset
    return found


async def examine(runner: SlotRunner, partition: CopyPartition, fault: Fault) -> None:
    """Say exactly what is missing, once it is known; the partition stands still meanwhile."""
    try:
        found = await _exact(runner, partition, fault, await _written(runner, partition))
    except MirrorfleetError as error:
        _log.warning(
            "what the target lost is not known yet",
            extra=fields(topic=partition.entry.target_topic, error=str(error)),
        )
        if not isinstance(error, _UnknownError):
            return  # asked again with the next look
        found = replace(fault, detail=f"{fault.detail}; {error}", comparable=False)
    if partition.fault == fault:
        runner.stop_partition(partition, found)


async def listed(runner: SlotRunner, partition: CopyPartition, fault: Fault) -> Fault:
    """Name the target records that are of a history which the source no longer has."""
    if fault.lost is None:
        return fault
    try:
        known = await _known(runner, partition)
    except MirrorfleetError as error:
        return replace(fault, detail=f"{fault.detail}; which target records: {error}")
    first = known.to_target(fault.lost.first)
    if first is None:
        return fault
    count, end = known.records_from(first.offset), known.target_end
    text = f"{fault.detail}: {count} target records [{first.offset}, {end})"
    return replace(fault, detail=text, records=count)


async def _known(runner: SlotRunner, partition: CopyPartition) -> PartitionMap:
    found = (await runner.mender.maps_of((partition.identity,))).of(partition.identity)
    return PartitionMap() if found is None else found


async def _written(runner: SlotRunner, partition: CopyPartition) -> list[Written]:
    """What each incarnation wrote to the target partition, the latest first."""
    identities = _identities(runner, partition)
    maps = await runner.mender.maps_of(identities)
    return [Written(one.source_topic_id, maps.of(one) or PartitionMap()) for one in identities]


def _identities(runner: SlotRunner, partition: CopyPartition) -> list[PartitionIdentity]:
    return [partition.identity, *succession.written_before(runner, partition.identity)]


async def _exact(
    runner: SlotRunner, partition: CopyPartition, fault: Fault, written: Sequence[Written]
) -> Fault:
    reasons = [one[0] for one in succession.changed_sides(runner, partition.entry)]
    if FaultReason.TARGET_RECREATED in reasons:
        fault, kept = replace(fault, reason=FaultReason.TARGET_RECREATED), TargetOffset(0)
    else:
        kept = await _kept(runner, partition)
    first, records, others = gone(partition.committed, written, kept)
    end = partition.committed.next_source
    oldest = await _oldest(runner, partition)
    text = f"{fault.detail}: {records} records of source {Span(first, end)} are gone"
    if others:
        text += f", and {others} of the source topic that had the name before"
    if oldest > first:
        text += f", and the source begins at {oldest}"
    return replace(fault, detail=text, lost=Span(first, end), records=records, oldest=oldest)


async def _oldest(runner: SlotRunner, partition: CopyPartition) -> SourceOffset:
    at = partition.entry.source
    start = (await list_offsets(runner.source, {at: EARLIEST}))[at]
    return SourceOffset(0 if isinstance(start, BrokerError) else start.offset)


async def _kept(runner: SlotRunner, partition: CopyPartition) -> TargetOffset:
    """Up to where the target still has what was written to it.

    Raises: _UnknownError when its bytes are others.
    """
    at, identities = partition.target, _identities(runner, partition)
    start, end = await log_bounds(runner.target, at)
    window, first, differs = FIRST_WINDOW, end, False
    while first > start:
        first = max(start, end - window)
        stored = await _stored(runner, at, first, end)
        behind = TargetOffset(first)
        runs = [await runner.mender.runs_behind(one, behind) for one in identities]
        next_target = partition.committed.next_target
        kept, differs = kept_to(in_force(runs, next_target), stored)
        if kept is not None:
            return kept
        if first > start and window >= MOST_WINDOW:
            raise _UnknownError(
                f"nothing of its last {window} offsets is as it was written, so this cannot be told"
            )
        window *= 10
    if differs:
        raise _UnknownError("its stored bytes are not what was written, so this cannot be told")
    return TargetOffset(start)


async def _stored(
    runner: SlotRunner, at: TopicPartition, first: int, end: int
) -> dict[TargetOffset, Payload]:
    topic = await runner.target.topic(at.topic, refresh=True)
    found: dict[TargetOffset, Payload] = {}
    try:
        async with aclosing(
            stored_batches(runner.target, topic, at.partition, first, end)
        ) as batches:
            async for seen in batches:
                header = seen.header
                if header.is_control or seen.aborted:
                    continue
                body = memoryview(seen.buffer)[header.start + HEADER_SIZE : header.end]
                found[TargetOffset(header.base_offset)] = Payload(header.count, crc32c(body))
    except CorruptBatchError as error:
        raise _UnknownError(str(error)) from error
    return found
