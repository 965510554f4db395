"""A transaction that turns out to be aborted after its records passed is undone, not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.transaction import SpoiledError, Transaction
from tests.unit.copying.making import entry, give, partition_of, slot
from tests.unit.wire.batches import batch_of, marker, some

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.slot import Slot

ALICE, END = 11, 100
FIRST = batch_of(some(1)) + batch_of(some(2, first=1), producer_id=ALICE)
THEN = batch_of(some(1, first=3)) + marker(4, ALICE, 0) + batch_of(some(1, first=5))
"""What the broker did not list as aborted, and the answer behind it with the marker."""


def sending_first(made: Slot, partition: CopyPartition) -> Transaction:
    """The open transaction, with what came first on its way."""
    give(made, partition, FIRST, end=END)
    transaction = Transaction(0.0)
    made.open = transaction.touched
    transaction.sent(partition, made.next_batch(partition), 1.0, 1)
    return transaction


def test_what_was_not_sent_yet_is_walked_again_without_it() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END)
    give(made, partition, THEN, end=END)
    assert (partition.walked_to, list(partition.queue), partition.omitted) == (0, [], 1)

    give(made, partition, FIRST, end=END)
    give(made, partition, THEN, end=END)
    assert [each.batch.first for each in partition.queue] == [0, 3, 5]
    assert (partition.walked_to, partition.omitted, partition.known_aborts) == (6, 1, [])


def test_what_is_in_the_open_transaction_is_not_committed() -> None:
    made = slot()
    partition = partition_of(made)
    transaction = sending_first(made, partition)
    give(made, partition, THEN, end=END)
    with pytest.raises(SpoiledError, match=r"east\.orders-0"):
        transaction.positions(5, [])

    made.rewind()
    made.open = {}
    give(made, partition, FIRST, end=END)
    assert [each.batch.first for each in partition.queue] == [0]
    assert not partition.spoiled


def test_it_is_known_still_when_the_slot_is_taken_anew() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END)
    give(made, partition, THEN, end=END)
    made.forget_all()
    again = made.admit(entry(), partition.committed)
    give(made, again, FIRST, end=END)
    assert [each.batch.first for each in again.queue] == [0]


def test_what_was_committed_before_the_marker_came_is_told_and_nothing_more_is_copied() -> None:
    made = slot()
    partition = partition_of(made)
    transaction = sending_first(made, partition)
    transaction.acknowledged(partition, 0)
    positions = transaction.positions(5, [])
    transaction.check()
    give(made, partition, THEN, end=END)
    with pytest.raises(SpoiledError):
        transaction.check()

    made.committed(positions, 2.0)  # its end was on the way already
    assert partition.copied_aborted
    assert (partition.walked_to, list(partition.queue)) == (3, [])
    made.open = {}
    give(made, partition, THEN, end=END)
    assert [each.batch.first for each in partition.queue] == [3, 5]
