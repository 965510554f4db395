"""What follows a refusal: which partition stops, which is cut smaller, which is looked at again."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import Action, Fault, FaultReason, Span, blames_the_batch
from mirrorfleet.copying.loss import Look, both, loss, made_again, may_be_cleaned
from mirrorfleet.copying.partition import CopyPartition, begun_at, start_position
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, may_not
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset
from mirrorfleet.kafka.offsets import (
    EARLIEST,
    LATEST,
    ListedOffset,
    list_offsets,
    offset_for_leader_epoch,
)
from mirrorfleet.slots import ledger, succession, target_loss
from mirrorfleet.wire.copybatch import CopyBatch, NullKeys
from mirrorfleet.wire.k01_fetch import Isolation
from mirrorfleet.wire.reshape import source_offset

if TYPE_CHECKING:
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.outgoing import AbortError
    from mirrorfleet.slots.runner import SlotRunner

ABSENT_S: Final = 10.0
"""UNKNOWN_TOPIC_ID is transient after a creation or an election; longer is absence."""
AGAIN_S: Final = {
    FaultReason.SOURCE_DENIED: 5.0,
    FaultReason.TARGET_DENIED: 5.0,
    FaultReason.SOURCE_MISSING: 5.0,
    FaultReason.TARGET_MISSING: 5.0,
}
"""Seconds until a faulted partition is looked at again; others wait a minute."""
AGAIN_OTHERS_S: Final = 60.0
EXAMINED_AGAIN_S: Final = 1.0

STRANGE: Final = 5
"""Refusals, a metadata's age apart, before another topic id is believed: metadata may be old."""

REFUSALS: Final = 5
"""Refusals in a row of one batch, each of which aborts the slot's transaction."""

FAILURES: Final = 2 * REFUSALS
"""And so many that say nothing of the batch: half a minute, as the waits between them double."""

NOWHERE: Final = SourceOffset(-1)
"""The place of a fault of a partition that has no position."""
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def after_refusal(runner: SlotRunner, error: AbortError) -> None:
    """Act on what the target refused, after the transaction was aborted."""
    partition, batch = error.partition, error.batch
    if partition is not None and error.fault is not None:
        runner.stop_partition(partition, error.fault)
    if partition is None or batch is None:
        return
    match error.action:
        case Action.SPLIT:
            fault = runner.slot.refused_size(partition, batch)
            if fault is not None:
                _stop(runner, partition, fault)
        case Action.INSPECT:
            _inspect(runner, partition, batch, error)
        case Action.DENIED:
            _target_denied(runner, partition, batch.first)
            _stop_others_of(runner, partition)
        case _:
            judge_target(runner, partition, batch.first)
            _judge_batch(runner, partition, batch, error)


def _judge_batch(
    runner: SlotRunner, partition: CopyPartition, batch: CopyBatch, error: AbortError
) -> None:
    """A batch that the target refuses whatever is done would stop the whole slot for ever."""
    code = None if error.ack is None else error.ack.error
    has_failed = code is ErrorCode.UNKNOWN_SERVER_ERROR
    if code is None or not (has_failed or blames_the_batch(code)):
        return
    if partition.fault is not None and partition.fault.offset <= batch.first:
        return  # one that stands behind the batch does not keep it from being sent again
    times, most = runner.slot.refused_again(partition, batch), FAILURES if has_failed else REFUSALS
    if times >= most:
        text = f"{partition.entry.target_topic} refused it {most} times: {error.message}"
        _stop(runner, partition, Fault(FaultReason.RECORD_REFUSED, batch.first, text))
    elif times >= REFUSALS:
        wait_s = 2.0 ** (times - REFUSALS)
        runner.slot.hold_back(partition, runner.clock.monotonic() + wait_s)


def _stop(runner: SlotRunner, partition: CopyPartition, fault: Fault) -> None:
    """Stop at a record that the target refuses, with everything before it copied."""
    if not partition.stop_before(fault):
        runner.stop_partition(partition, fault)


def _inspect(
    runner: SlotRunner, partition: CopyPartition, batch: CopyBatch, error: AbortError
) -> None:
    """The broker names the records in its answer (record errors, Produce v8).

    Where one of them has a refused timestamp that is said of the whole batch, also when others lack
    a key (LogValidator.processRecordErrors): keys are looked at first where that may be.
    """
    entry = partition.entry
    ack = error.ack
    named = ack.record_errors if ack is not None else ()
    index, message = named[0] if named else (0, error.message)
    offset = source_offset(batch, index)
    of_time = ack is not None and ack.error is ErrorCode.INVALID_TIMESTAMP
    may_lack_keys = entry.target_compacted and not partition.looks_at_keys
    if may_lack_keys and (not of_time or len(named) > 1):
        keys = NullKeys.FAIL if entry.null_keys == NullKeys.ALLOW else NullKeys(entry.null_keys)
        partition.take(limit=partition.terms.max_batch_bytes, null_keys=keys)
    elif of_time:
        text = f"{entry.target_topic} refuses its timestamp: {message}"
        _stop(runner, partition, Fault(FaultReason.TIMESTAMP_REFUSED, offset, text))
    else:
        text = f"{entry.target_topic} refuses it: {message}"
        _stop(runner, partition, Fault(FaultReason.RECORD_REFUSED, offset, text))


def _stop_others_of(runner: SlotRunner, denied: CopyPartition) -> None:
    """The right is the topic's: each of its partitions that is sent would cost another abort."""
    for other in runner.slot.partitions.values():
        if other.fault is None and other.target.topic == denied.target.topic:
            runner.slot.hold_back(other, 0.0)
            _target_denied(runner, other, other.committed.next_source)


def _target_denied(runner: SlotRunner, partition: CopyPartition, first: SourceOffset) -> None:
    resource = f"Topic:{partition.entry.target_topic}"
    text = may_not(runner.target_principal, "WRITE", resource, runner.link.target)
    runner.stop_partition(partition, Fault(FaultReason.TARGET_DENIED, first, text))


def judge_target(runner: SlotRunner, partition: CopyPartition, first: SourceOffset) -> None:
    """Stop a partition whose target topic is no more, another one, or hidden from us."""
    entry = partition.entry
    if partition.fault is not None and partition.fault.reason is FaultReason.TARGET_RECREATED:
        return  # known, and looked into
    found = runner.targets.topic_id(entry.target_topic)
    if runner.targets.denied(entry.target_topic):
        _target_denied(runner, partition, first)
    elif found is not None and found != partition.identity.target_topic_id:
        if succession.was_before(runner, partition.identity, found):
            return  # it is held back until metadata tells what it was begun for
        text = f"target topic {entry.target_topic} was deleted and created again: id {found}"
        runner.stop_partition(partition, Fault(FaultReason.TARGET_RECREATED, first, text))
    elif runner.targets.absent_for(entry.target_topic) > ABSENT_S:
        text = f"{runner.link.target} has no topic {entry.target_topic}"
        runner.stop_partition(partition, Fault(FaultReason.TARGET_MISSING, first, text))


def wait_for_start(runner: SlotRunner, entry: CatalogPartition, error: BrokerError | None) -> None:
    """Keep a new partition apart as long as the source does not tell its first offset."""
    code = None if error is None else error.code
    fault = None
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = source_denied(runner, entry.source_topic)
        fault = Fault(FaultReason.SOURCE_DENIED, NOWHERE, text)
    elif code in _GONE:
        text = f"{runner.link.source} has no topic {entry.source_topic}, or hides it"
        fault = Fault(FaultReason.SOURCE_MISSING, NOWHERE, text)
    elif code is ErrorCode.INVALID_REQUEST:
        fault = Fault(FaultReason.SOURCE_CORRUPT, NOWHERE, str(error))
    hold(runner, entry, fault)


def hold(runner: SlotRunner, entry: CatalogPartition, fault: Fault | None) -> None:
    """Keep a partition apart that has no position yet; without a fault what it had stays."""
    waiting = runner.unstarted.get(entry.identity)
    if waiting is None:
        position = start_position(entry.identity, SourceOffset(0), runner.clock.now_ms())
        waiting = runner.unstarted[entry.identity] = begun_at(entry, position)
    waiting.fault = fault or waiting.fault
    runner.report_fault(waiting)


def hold_lost(runner: SlotRunner, entry: CatalogPartition, text: str) -> None:
    """Keep a partition apart that was copied before, nobody knows how far."""
    hold(runner, entry, Fault(FaultReason.POSITION_LOST, NOWHERE, text))


def is_lost(waiting: CopyPartition) -> bool:
    """Whether it was copied before and nobody knows how far."""
    return waiting.fault is not None and waiting.fault.reason is FaultReason.POSITION_LOST


def may_start(runner: SlotRunner, identity: PartitionIdentity) -> bool:
    """Whether it makes sense to copy, or to ask for a first offset: not while it is hidden."""
    if is_left_behind(runner, identity):
        return False
    waiting = runner.unstarted.get(identity)
    if waiting is None:
        return True
    if is_lost(waiting) or (waiting.entry.loss is not None and not ledger.is_open(runner)):
        return False
    topic = waiting.entry.source_topic
    known = runner.sources.of(topic, identity.partition) is not None
    return known and not runner.sources.denied(topic)


def is_left_behind(runner: SlotRunner, identity: PartitionIdentity) -> bool:
    """Whether the slot goes on without this partition for now."""
    if not runner.wedges.left_behind or identity not in runner.entries:
        return False
    entry = runner.entries[identity]
    return entry.target in runner.wedges.left_behind


def source_denied(runner: SlotRunner, topic: str) -> str:
    """The text for a topic that we may not read."""
    return may_not(runner.source_principal, "READ", f"Topic:{topic}", runner.link.source)


def judge_absence(runner: SlotRunner, partition: CopyPartition, code: ErrorCode) -> None:
    """A topic that stays away for a while, or came back as another one, stops its partitions."""
    entry = partition.entry
    if code not in _GONE and code is not ErrorCode.INCONSISTENT_TOPIC_ID:
        return
    found = runner.sources.topic_id(entry.source_topic)
    if found is not None and found != partition.identity.source_topic_id:
        partition.strange += 1
        if partition.strange < STRANGE:
            return
        at = partition.walked_to
        lost = Span(at, SourceOffset(max(at, partition.source.high_watermark)))
        text = made_again(f"source topic {entry.source_topic}", found, lost)
        runner.stop_partition(partition, Fault(FaultReason.SOURCE_RECREATED, at, text, lost))
    elif runner.sources.absent_for(entry.source_topic) > ABSENT_S:
        text = f"{runner.link.source} has no topic {entry.source_topic}, or hides it"
        runner.stop_partition(
            partition, Fault(FaultReason.SOURCE_MISSING, partition.walked_to, text)
        )


async def examine(runner: SlotRunner, partition: CopyPartition) -> None:
    """Two looks at the leader that agree prove a loss; anything else is tried again.

    The partition is not fetched meanwhile: the next refusal would have it examined once more. Where
    it was after all, for its target moved and the hold ended with that, they prove nothing.
    """
    partition.held_until = inf
    began = partition.rewinds, partition.walked_to
    try:
        first = await _look(runner, partition)
        await runner.sources.renewed()
        second = await _look(runner, partition)
        if partition.entry.source_compacted and may_be_cleaned(first) and may_be_cleaned(second):
            partition.walked_epoch = -1  # the next fetch asks for none
            first, second = (each._replace(lacks_epoch=False) for each in (first, second))
        found = both(loss(began[1], first), loss(began[1], second))
        if found is not None and found.reason is FaultReason.SOURCE_TRUNCATED:
            found = await target_loss.listed(runner, partition, found)
        moved = began != (partition.rewinds, partition.walked_to)
        if found is not None and not moved and partition.fault is None:
            runner.stop_partition(partition, found)
    except MirrorfleetError as error:
        runner.source_trouble(error)
    finally:
        partition.held_until = runner.clock.monotonic() + EXAMINED_AGAIN_S


async def _look(runner: SlotRunner, partition: CopyPartition) -> Look:
    at = partition.entry.source
    uncommitted = Isolation.READ_UNCOMMITTED
    start = (await list_offsets(runner.source, {at: EARLIEST}, isolation=uncommitted))[at]
    end = (await list_offsets(runner.source, {at: LATEST}, isolation=uncommitted))[at]
    epoch_end, lacks_epoch, epoch = -1, False, partition.walked_epoch
    if epoch >= 0:
        lineage = (await offset_for_leader_epoch(runner.source, {at: epoch}))[at]
        if not isinstance(lineage, BrokerError):
            epoch_end = lineage.end_offset
            lacks_epoch = lineage.leader_epoch < epoch
    return Look(_offset(start), _offset(end), epoch_end, lacks_epoch)


def _offset(answer: ListedOffset | BrokerError) -> int:
    if isinstance(answer, BrokerError):
        raise answer
    return answer.offset


def look_again(runner: SlotRunner, now: float) -> None:
    """Heal what can heal by itself: rights that were granted, topics that came back, a target that
    takes what it refused, bytes that another replica has right.

    What metadata hides is asked for again, and tried when it is shown.
    """
    runner.slot.trust(now)
    if runner.unstarted:
        runner.sources.ask()
    for partition in runner.slot.partitions.values():
        fault = partition.fault
        if fault is None:
            continue
        if succession.was_old(runner, partition.entry, fault.reason):
            runner.retry(partition)  # ids never come back
            continue
        if not (fault.reason.heals or _may_be_right_now(partition, fault)):
            continue
        if runner.mender.awaits_sync(partition.identity):
            continue
        if _is_hidden(runner, partition):
            continue
        if now - partition.fault_since < AGAIN_S.get(fault.reason, AGAIN_OTHERS_S):
            continue
        partition.fault_since = now
        runner.retry(partition)


def _may_be_right_now(partition: CopyPartition, fault: Fault) -> bool:
    """Whether it makes sense to fetch bytes again that were corrupt: that costs one answer.

    It does not heal like the others, which lose nothing: an operator may accept a gap there. So it
    stands as long as nobody would answer, and what came before it is sent first.
    """
    is_corrupt = fault.reason is FaultReason.SOURCE_CORRUPT
    return is_corrupt and partition.reachable and not partition.queue


def _is_hidden(runner: SlotRunner, partition: CopyPartition) -> bool:
    """Whether a side still says that we may not know of the topic; then it is asked again."""
    entry = partition.entry
    hidden = False
    for leaders, topic in (
        (runner.sources, entry.source_topic),
        (runner.targets, entry.target_topic),
    ):
        if leaders.denied(topic):
            leaders.ask()
            hidden = True
    return hidden
