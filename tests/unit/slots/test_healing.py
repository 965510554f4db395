"""What stops a partition, and when it is tried again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Action, Fault, FaultReason, produce_action
from mirrorfleet.copying.remedies import Step, by_request
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TopicId
from mirrorfleet.kafka.producer import ProduceAck
from mirrorfleet.records import commands
from mirrorfleet.slots import healing
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.wire.copybatch import NullKeys
from tests.unit.copying.making import (
    BIG,
    LINK,
    SOURCE_TOPIC,
    asked,
    entry,
    fetched,
    give,
    identity,
    partition_of,
    slot,
)

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.slot import Slot
    from mirrorfleet.slots.runner import SlotRunner

NOW = 100.0


def test_a_start_that_cannot_be_asked_for_is_told_where_the_partition_waits() -> None:
    told: list[CopyPartition] = []
    runner = SimpleNamespace(
        unstarted={},
        clock=SimpleNamespace(now_ms=lambda: 5),
        link=LINK,
        report_fault=told.append,
    )
    error = BrokerError(ErrorCode.INVALID_REQUEST, "its start")

    healing.wait_for_start(cast("SlotRunner", runner), entry(), error)

    (waiting,) = told
    assert waiting.fault is not None
    assert "its start" in waiting.fault.detail


def looked_again(copying: Slot, now: float, *, source: TopicId | None = SOURCE_TOPIC) -> None:
    ids = {"orders": source, "east.orders": identity().target_topic_id}
    side = SimpleNamespace(denied=lambda _: False, ask=lambda: None, topic_id=ids.get)
    runner = SimpleNamespace(unstarted={}, slot=copying, sources=side, targets=side)
    vars(runner).update(retry=copying.heal, mender=SimpleNamespace(awaits_sync=lambda _: False))
    healing.look_again(cast("SlotRunner", runner), now)


@pytest.mark.parametrize(
    ("source", "stands"), [(TopicId(int=77), True), (None, True), (SOURCE_TOPIC, False)]
)
def test_another_topic_of_the_name_was_old_metadata_only_if_the_one_that_was_copied_is_there(
    source: TopicId | None, *, stands: bool
) -> None:
    copying = slot()
    partition = partition_of(copying)
    partition.fault = Fault(FaultReason.SOURCE_RECREATED, SourceOffset(0), "made again")

    looked_again(copying, NOW, source=source)

    assert (partition.fault is not None) is stands


def test_a_corrupt_batch_is_fetched_again_each_minute_and_can_be_given_up_as_before() -> None:
    copying = slot()
    partition = partition_of(copying)
    good = fetched((0, [b"a"]))
    bad = bytearray(good)
    bad[-1] ^= 1
    for minute in range(2):
        found_at = NOW + 61 * minute
        give(copying, partition, bad, end=1, now=found_at)
        fault = partition.fault
        assert fault is not None
        looked_again(copying, found_at + 59)
        assert partition.fault is fault
        accept = asked(commands.Action.ACCEPT_GAP, 0, 1)
        assert isinstance(by_request(fault, SourceOffset(0), accept), Step)

        looked_again(copying, found_at + 61)
        assert partition.fault is None

    give(copying, partition, good, end=1)
    assert [queued.batch.count for queued in partition.queue] == [1]


@pytest.mark.parametrize("is_away", [True, False])
def test_a_corrupt_batch_stands_while_nobody_would_answer_or_what_is_before_it_waits(
    *, is_away: bool
) -> None:
    copying = slot()
    partition = partition_of(copying)
    frame = fetched((0, [b"a"]), (1, [b"b"]))
    frame[-1] ^= 1
    give(copying, partition, frame, end=2, now=NOW)
    if is_away:
        copying.next_batch(partition)
        partition.away_since = NOW

    looked_again(copying, NOW + 61)

    assert partition.fault is not None
    assert partition.rewinds == 0


@pytest.mark.parametrize("offset", [0, 1])
def test_what_is_refused_for_ever_stops_also_where_another_fault_stands_behind_it(
    offset: int,
) -> None:
    """It is copied before the other is looked at: it would abort the whole slot again and again."""
    copying = slot()
    partition = partition_of(copying)
    frame = fetched((0, [b"a"]))
    give(copying, partition, frame, end=2)
    batch = partition.queue[0].batch
    copying.fault(partition, Fault(FaultReason.SOURCE_CORRUPT, SourceOffset(offset), "why"), NOW)
    at = partition.target
    error = ErrorCode.CORRUPT_MESSAGE
    ack = ProduceAck(at.topic, at.partition, error, -1, -1, 0, None, (), None)
    runner = SimpleNamespace(
        slot=copying,
        clock=SimpleNamespace(monotonic=lambda: NOW),
        targets=SimpleNamespace(
            topic_id=lambda _: None, denied=lambda _: False, absent_for=lambda _: 0.0
        ),
        stop_partition=lambda partition, fault: copying.fault(partition, fault, NOW),
    )

    for _ in range(healing.REFUSALS):
        refusal = AbortError("refused", partition=partition, batch=batch, ack=ack)
        healing.after_refusal(cast("SlotRunner", runner), refusal)

    reason = FaultReason.RECORD_REFUSED if offset else FaultReason.SOURCE_CORRUPT
    assert partition.fault is not None
    assert partition.fault.reason is reason


class Refusing:
    """A slot whose target refuses the record at offset 3 of two batches of three."""

    def __init__(self) -> None:
        self.copying = slot()
        self.partition = partition_of(self.copying)
        self.give()
        self.runner = SimpleNamespace(
            slot=self.copying,
            clock=SimpleNamespace(monotonic=lambda: NOW),
            targets=SimpleNamespace(
                topic_id=lambda _: None, denied=lambda _: False, absent_for=lambda _: 0.0
            ),
            stop_partition=lambda partition, fault: self.copying.fault(partition, fault, NOW),
        )

    def give(self) -> None:
        frame = fetched((0, [b"a", b"b", b"c"]), (3, [b"d", b"e", b"f"]))
        give(self.copying, self.partition, frame, end=6)

    def refuse(self, first: int, code: ErrorCode) -> None:
        """As the run of a slot does it."""
        partition, at = self.partition, self.partition.target
        (batch,) = (q.batch for q in partition.queue if q.batch.first == first)
        errors = ((4 - first, "no such time"),)
        ack = ProduceAck(at.topic, at.partition, code, -1, -1, 0, None, errors, None)
        action = produce_action(code, first=False)
        refusal = AbortError("refused", action, partition=partition, batch=batch, ack=ack)
        self.copying.rewind()
        healing.after_refusal(cast("SlotRunner", self.runner), refusal)

    def copied(self) -> None:
        """What was queued is committed."""
        while self.partition.queue:
            self.copying.next_batch(self.partition)
        position = replace(self.partition.committed, next_source=self.partition.walked_to)
        self.copying.committed([position], NOW)


def stands(partition: CopyPartition) -> tuple[str, int] | None:
    fault = partition.fault
    return None if fault is None else (fault.reason, fault.offset)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.INVALID_TIMESTAMP, FaultReason.TIMESTAMP_REFUSED),
        (ErrorCode.INVALID_RECORD, FaultReason.RECORD_REFUSED),
    ],
)
def test_what_comes_before_a_refused_record_is_copied_whatever_aborts_meanwhile(
    code: ErrorCode, reason: FaultReason
) -> None:
    world = Refusing()
    partition = world.partition
    world.refuse(3, code)
    assert stands(partition) is None

    world.give()
    queued = [(q.batch.first, q.batch.next_offset) for q in partition.queue]
    assert (queued, stands(partition)) == ([(0, 3), (3, 4)], (reason, 4))
    world.copying.rewind()
    assert world.copying.wanted(partition.pace, NOW) == [partition]
    world.give()
    assert [(q.batch.first, q.batch.next_offset) for q in partition.queue] == queued
    assert stands(partition) == (reason, 4)


def test_a_refused_record_is_tried_again_alone_and_then_stops_where_it_is() -> None:
    world = Refusing()
    partition = world.partition
    world.refuse(3, ErrorCode.INVALID_TIMESTAMP)
    world.give()
    world.copied()

    looked_again(world.copying, NOW + 61)
    world.give()
    assert [(q.batch.first, q.batch.next_offset) for q in partition.queue] == [(4, 6)]
    world.refuse(4, ErrorCode.INVALID_TIMESTAMP)
    assert stands(partition) == (FaultReason.TIMESTAMP_REFUSED, 4)
    assert partition.terms.refused is None


def test_a_target_that_fails_for_a_while_stops_no_partition_and_is_tried_less_and_less() -> None:
    """An exception in a broker, or a code of a newer one: that says nothing of the batch."""
    world, waited = Refusing(), list[float]()
    partition = world.partition
    for _ in range(healing.FAILURES - 1):
        world.refuse(3, ErrorCode.UNKNOWN_SERVER_ERROR)
        waited.append(max(partition.held_until - NOW, 0.0))
        assert world.copying.wanted(partition.pace, NOW + waited[-1]) == [partition]
        world.give()

    assert waited == [0, 0, 0, 0, 1, 2, 4, 8, 16]
    assert stands(partition) is None
    world.copied()
    assert partition.committed.next_source == 6


def test_a_batch_at_which_the_target_fails_each_time_is_tried_once_a_minute() -> None:
    """It would abort all of its slot's transactions; an operator may have it left out."""
    world = Refusing()
    partition = world.partition
    for _ in range(healing.FAILURES - 1):
        world.refuse(0, ErrorCode.UNKNOWN_SERVER_ERROR)
        world.give()
    for minute in (1, 2):
        world.refuse(0, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert stands(partition) == (FaultReason.RECORD_REFUSED, 0)
        looked_again(world.copying, NOW + 61 * minute)
        world.give()
    world.copied()

    assert (partition.committed.next_source, stands(partition)) == (6, None)


def test_new_limits_of_the_target_let_what_it_refused_be_tried_at_once() -> None:
    world = Refusing()
    world.refuse(3, ErrorCode.INVALID_RECORD)

    entry = replace(world.partition.entry, target_max_batch_bytes=2_000_000)
    world.copying.renew(entry)
    world.give()

    assert (len(world.partition.queue), stands(world.partition)) == (2, None)


@pytest.mark.parametrize(
    "refusals", [(Action.INSPECT, Action.SPLIT), (Action.SPLIT, Action.INSPECT)]
)
def test_a_batch_that_is_refused_for_a_key_and_for_its_size_is_cut_and_its_keys_are_looked_at(
    refusals: tuple[Action, ...],
) -> None:
    """Where one forgot the other, the batch would be refused for either in turn, for ever."""
    copying = slot(entry(target_compacted=True, null_keys="drop-recorded"))
    partition = partition_of(copying)
    give(copying, partition, fetched((0, [BIG, BIG])), end=2)
    batch = partition.queue[0].batch
    runner = SimpleNamespace(slot=copying, clock=SimpleNamespace(monotonic=lambda: NOW))

    for action in refusals:
        error = AbortError("refused", action, partition=partition, batch=batch)
        healing.after_refusal(cast("SlotRunner", runner), error)

    terms = partition.terms
    assert partition.fault is None
    assert (terms.null_keys, terms.max_batch_bytes) == (NullKeys.DROP_RECORDED, batch.size // 2)
