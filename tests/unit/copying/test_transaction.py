from __future__ import annotations

import pytest

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.copying.partition import CopyPartition
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.transaction import SpoiledError, TargetBehindError, Transaction
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.segments import Run, decode_segment, encode_segment
from tests.unit.copying.making import BIG, entry, fetched, give, identity, slot


def send_all(made: Slot, partition: CopyPartition, transaction: Transaction) -> None:
    while partition.queue:
        transaction.sent(partition, made.next_batch(partition), 2.0, 1)


def test_positions_follow_the_acknowledged_batches() -> None:
    made = slot()
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [BIG, BIG]), (2, [BIG])), end=3)
    send_all(made, partition, transaction)
    transaction.acknowledged(partition, 100)
    transaction.acknowledged(partition, 102)

    (position,) = transaction.positions(5, [])

    assert (position.next_source, position.next_target, position.records) == (3, 103, 3)
    assert position.leader_epoch == 3
    assert transaction.unacknowledged == 0


def test_a_position_stops_at_the_last_batch_sent_while_others_wait() -> None:
    made = slot()
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=2)
    transaction.sent(partition, made.next_batch(partition), 2.0, 1)
    transaction.acknowledged(partition, 0)

    (position,) = transaction.positions(5, [])

    assert position.next_source == 1


def test_a_partition_that_only_skipped_batches_is_committed_without_a_segment() -> None:
    made = slot()
    partition = made.partitions[identity()]
    partition.walked_to = type(partition.walked_to)(9)
    transaction = Transaction(1.0)

    (position,) = transaction.positions(5, [partition])

    assert (position.next_source, position.next_target, position.records) == (9, 0, 0)
    assert transaction.segment(SlotNumber(0), 5) is None


def test_continuing_offsets_are_one_run_and_a_foreign_record_between_begins_another() -> None:
    made = slot()
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [BIG]), (1, [BIG]), (2, [BIG])), end=3)
    send_all(made, partition, transaction)
    transaction.acknowledged(partition, 10)
    transaction.acknowledged(partition, 11)
    transaction.acknowledged(partition, 13)

    segment = transaction.segment(SlotNumber(4), 5)

    assert segment is not None
    ((found, runs),) = segment.runs
    assert found == identity()
    assert [(r.source_start, r.source_end, r.target_start, r.records) for r in runs] == [
        (0, 2, 10, 2),
        (2, 3, 13, 1),
    ]
    assert decode_segment(encode_segment(segment)) == segment


def test_holes_are_in_the_run_so_that_its_records_add_up() -> None:
    made = slot()
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [b"a"]), (5, [b"b"])), end=6)
    send_all(made, partition, transaction)
    transaction.acknowledged(partition, 0)

    segment = transaction.segment(SlotNumber(0), 5)

    assert segment is not None
    (run,) = segment.runs[0][1]
    assert isinstance(run, Run)
    assert (run.source_start, run.source_end, run.holes, run.records) == (0, 6, ((1, 4),), 2)


def test_an_append_below_the_last_one_means_that_the_target_lost_records() -> None:
    made = slot()
    partition = made.partitions[identity()]
    give(made, partition, fetched((0, [BIG])), end=1)
    partition.committed = type(partition.committed)(
        identity=identity(),
        next_source=partition.committed.next_source,
        leader_epoch=0,
        next_target=type(partition.committed.next_target)(50),
        records=50,
        bytes=1,
        time_ms=1,
    )
    transaction = Transaction(1.0)
    send_all(made, partition, transaction)

    with pytest.raises(TargetBehindError) as raised:
        transaction.acknowledged(partition, 40)

    assert raised.value.fault.reason is FaultReason.TARGET_TRUNCATED


def test_nothing_is_committed_while_a_batch_has_no_answer() -> None:
    made = slot()
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=2)
    send_all(made, partition, transaction)
    transaction.acknowledged(partition, 0)

    with pytest.raises(SpoiledError, match="1 batches have no answer"):
        transaction.positions(5, [])


def test_an_abandoned_transaction_gives_all_memory_back() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(entry(), budget=budget)
    partition = made.partitions[identity()]
    transaction = Transaction(1.0)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=2)
    send_all(made, partition, transaction)
    transaction.acknowledged(partition, 0)

    transaction.abandon()

    assert budget.used == 0
