"""What a broker may wrongly call committed is not sent before the marker of its end came."""

from __future__ import annotations

import pytest

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import start_position
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.withheld import FOLLOWER, LONGEST_S, SHORT_S
from mirrorfleet.core.ids import SlotNumber, SourceOffset
from mirrorfleet.wire.copybatch import Dropped, FaultKind
from tests.unit.copying.making import entry, give, partition_of, slot
from tests.unit.wire.batches import batch_of, marker, some

ALICE, BOB, END = 11, 12, 100
BEFORE, NOW = 4, 5
"""Leader epochs: of the one before, and of the one that is asked."""
FIRST = batch_of(some(1), leader_epoch=BEFORE) + batch_of(
    some(2, first=1), producer_id=ALICE, leader_epoch=BEFORE
)
OTHERS = batch_of(some(1, first=3), leader_epoch=BEFORE)


def sent(made: Slot) -> list[int]:
    """First offsets of all that may be sent now."""
    found = []
    while made.ready:
        found.append(int(made.next_batch(partition_of(made)).batch.first))
    return found


def test_what_was_appended_before_the_leaders_epoch_waits_for_its_marker() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST + OTHERS, end=END, epoch=NOW)
    assert (sent(made), len(partition.queue)) == ([0], 2)

    give(made, partition, marker(4, ALICE, 1), end=END, epoch=NOW)
    assert (sent(made), len(partition.queue)) == ([1], 0)  # and what follows, in the same batch


def test_so_does_a_batch_that_begins_before_the_position() -> None:
    """The range begins in its midst, or a commit ended there."""
    made = slot()
    partition = made.admit(entry(), start_position(entry().identity, SourceOffset(1), 1))
    batch = batch_of(some(3), producer_id=ALICE, leader_epoch=BEFORE)
    give(made, partition, batch, end=END, epoch=NOW)
    assert (len(partition.queue), partition.sendable) == (1, False)

    give(made, partition, marker(3, ALICE, 1), end=END, epoch=NOW)
    assert sent(made) == [1]


def test_what_the_marker_aborts_was_not_sent() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW)
    assert sent(made) == [0]
    give(made, partition, marker(3, ALICE, 0), end=END, epoch=NOW)
    assert (made.ready, partition.walked_to, partition.copied_aborted) == (False, 0, False)

    give(made, partition, FIRST + marker(3, ALICE, 0), end=END, epoch=NOW)
    assert (sent(made), partition.walked_to) == ([0], 4)


@pytest.mark.parametrize(
    ("epoch", "firsts"),
    [(BEFORE, [0]), (None, [0]), (NOW, [0]), (FOLLOWER, [0])],
    ids=["the leader's own", "not known", "an earlier one", "a follower's"],
)
def test_only_of_what_it_appended_as_the_leader_a_broker_is_believed(
    epoch: int | None, firsts: list[int]
) -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=epoch)

    assert sent(made) == firsts
    assert len(partition.queue) == (1 if epoch in {NOW, FOLLOWER} else 0)


def test_a_transaction_that_was_begun_before_the_epoch_waits_and_one_begun_in_it_does_not() -> None:
    made = slot()
    partition = partition_of(made)
    own = batch_of(some(1, first=3), producer_id=BOB, leader_epoch=NOW)
    give(made, partition, FIRST + own, end=END, epoch=NOW)
    assert sent(made) == [0]

    give(made, partition, marker(4, ALICE, 1), end=END, epoch=NOW)
    assert len(partition.undecided) == 1
    assert (sent(made), len(partition.queue)) == ([1], 0)


def test_the_next_transaction_of_the_same_producer_is_judged_by_itself() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW)
    own = batch_of(some(1, first=4), producer_id=ALICE, leader_epoch=NOW)
    give(made, partition, marker(3, ALICE, 1) + own, end=END, epoch=NOW)

    assert (sent(made), len(partition.queue)) == ([0], 0)


def test_a_transaction_that_is_decided_does_not_wait_for_the_next_one_of_its_producer() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=FOLLOWER, now=1.0)
    assert sent(made) == [0]
    another = batch_of(some(1, first=4), producer_id=ALICE, leader_epoch=BEFORE)
    give(made, partition, marker(3, ALICE, 1) + another, end=END, epoch=FOLLOWER, now=LONGEST_S)
    assert sent(made) == [1]

    made.trust(1.0 + LONGEST_S)  # the first one is over: the other waits from when it came
    assert (sent(made), len(partition.queue)) == ([], 1)


def test_nothing_waits_for_ever() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW, now=1.0)
    give(made, partition, OTHERS, end=END, epoch=NOW, now=20.0)
    assert sent(made) == [0]

    made.trust(1.0 + LONGEST_S - 0.1)
    assert sent(made) == []
    made.trust(1.0 + LONGEST_S)
    assert sent(made) == [1]
    give(made, partition, batch_of(some(1, first=4), leader_epoch=NOW), end=END, epoch=NOW)
    assert sent(made) == [4]  # what was trusted once does not hold up what comes behind it


def test_each_transaction_waits_from_when_it_came() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW, now=1.0)
    bobs = batch_of(some(1, first=3), producer_id=BOB, leader_epoch=BEFORE)
    give(made, partition, bobs, end=END, epoch=NOW, now=LONGEST_S)
    made.trust(1.0 + LONGEST_S)

    assert sent(made) == [0]
    assert [each.batch.first for each in partition.queue] == [3]


def test_what_stands_still_sends_what_was_fetched() -> None:
    """Its source was deleted, or it stands at a record: no marker is read on to."""
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW)
    assert sent(made) == [0]

    made.fault(partition, Fault(FaultReason.SOURCE_MISSING, SourceOffset(3), "gone"), 1.0)
    assert sent(made) == [1]


def test_nor_where_the_log_ends_without_a_marker() -> None:
    """Compaction may have taken it: no transaction is open up to there."""
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=3, epoch=NOW)

    assert (sent(made), len(partition.queue)) == ([0, 1], 0)


def test_nor_where_the_queue_is_full_of_what_waits() -> None:
    made = Slot(SlotNumber(0), MemoryBudget(1 << 20), queue_bytes=len(FIRST))
    partition = made.admit(entry(), slot().partitions[entry().identity].committed)
    give(made, partition, FIRST, end=END, epoch=NOW)
    assert (sent(made), len(partition.queue)) == ([0], 1)  # what was sent made room to read on

    large = batch_of(some(4, first=3, size=200), producer_id=ALICE, leader_epoch=BEFORE)
    give(made, partition, large, end=END, epoch=NOW)
    assert (sent(made), len(partition.queue)) == ([1], 0)


def test_nor_where_what_policy_drops_takes_the_room_to_read_on() -> None:
    made = Slot(SlotNumber(0), MemoryBudget(1 << 20), queue_bytes=1 << 16)
    partition = made.admit(entry(), slot().partitions[entry().identity].committed)
    give(made, partition, FIRST, end=END, epoch=NOW, now=1.0)
    assert (sent(made), len(partition.queue)) == ([0], 1)

    partition.dropped += [Dropped(SourceOffset(3), FaultKind.NULL_KEY)] * 1_000
    assert made.wanted(partition.pace, 1.0, 1 << 16) == []
    made.trust(1.0)
    assert sent(made) == [1]


def test_but_where_more_is_read_than_most_lanes_do_all_of_that_may_come_before_the_marker() -> None:
    made = Slot(SlotNumber(0), MemoryBudget(1 << 20), queue_bytes=len(FIRST))
    partition = made.admit(entry(), slot().partitions[entry().identity].committed)
    assert made.wanted(partition.pace, 1.0, queue_bytes=1 << 16) == [partition]
    made.wanted(partition.pace, 1.0)  # whoever looks which lanes are needed
    large = batch_of(some(4, first=3, size=200), producer_id=ALICE, leader_epoch=BEFORE)

    give(made, partition, FIRST + large, end=END, epoch=NOW, now=1.0)

    assert (sent(made), len(partition.queue)) == ([0], 2)


async def test_nor_for_long_where_memory_is_short_which_it_may_hold_itself() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW, now=1.0)
    assert sent(made) == [0]
    made.trust(1.0 + SHORT_S)
    assert sent(made) == []

    others, lane = budget.account(), budget.account()
    others.resize(0, budget.limit)
    budget.wait(lane, 1_000, lambda: None)
    made.trust(1.0 + SHORT_S - 0.1)
    assert sent(made) == []
    made.trust(1.0 + SHORT_S)
    assert sent(made) == [1]


def test_after_a_rewind_nothing_is_remembered() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, FIRST, end=END, epoch=NOW)
    made.rewind()
    assert not partition.withheld

    give(made, partition, FIRST + marker(3, ALICE, 1), end=END, epoch=NOW)
    assert sent(made) == [0]
