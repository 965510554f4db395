from __future__ import annotations

from dataclasses import replace

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.copying.partition import (
    LeftOut,
    Pace,
    SourceEnds,
    start_position,
    terms_of,
)
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.transaction import Touch
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.records.catalog import Priority
from mirrorfleet.records.positions import Position
from tests.unit.copying.making import (
    BIG,
    SOURCE_TOPIC,
    entry,
    fetched,
    give,
    identity,
    partition_of,
    slot,
)
from tests.unit.wire.batches import patched


def test_fetched_batches_wait_in_order_and_the_position_goes_on() -> None:
    made = slot()
    partition = partition_of(made)

    give(made, partition, fetched((0, [BIG, BIG]), (2, [BIG])), end=3)

    assert [q.batch.first for q in partition.queue] == [0, 2]
    assert partition.walked_to == 3
    assert partition.walked_epoch == 3
    assert partition.at_end


def test_a_rewind_forgets_what_is_not_committed_and_frees_the_memory() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG])), end=1)
    before = partition.rewinds

    made.rewind()

    assert (partition.walked_to, partition.walked_epoch, len(partition.queue)) == (0, -1, 0)
    assert budget.used == 0
    assert partition.rewinds == before + 1
    assert not made.ready


def test_what_was_asked_for_the_others_is_no_staler_when_one_is_held_back() -> None:
    made = slot(entry(0), entry(1))
    held, other = (made.partitions[identity(number)] for number in range(2))
    before = (held.rewinds, other.rewinds)

    made.hold_back(held, 1.0)

    assert (held.rewinds, other.rewinds) == (before[0] + 1, before[1])


def test_sequences_count_records_per_target_partition() -> None:
    made = slot()

    assert made.take_sequence(TopicPartition("east.orders", 0), 10) == 0
    assert made.take_sequence(TopicPartition("east.orders", 0), 5) == 10
    assert made.take_sequence(TopicPartition("east.orders", 1), 5) == 0


def test_a_new_producer_id_discards_everything_the_slot_knew() -> None:
    made = slot()
    made.take_sequence(TopicPartition("east.orders", 0), 10)
    made.known[identity()] = partition_of(made).committed

    made.forget_all()

    assert not made.partitions
    assert not made.known
    assert not made.sequences


def test_a_full_queue_is_not_fetched_until_it_drains() -> None:
    made = Slot(slot().number, MemoryBudget(1 << 20), queue_bytes=1_000)
    partition = made.admit(entry(), partition_of(slot()).committed)
    give(made, partition, fetched((0, [BIG])), end=1)

    assert made.wanted(Pace.LIVE, 1.0) == []
    made.next_batch(partition)
    assert made.wanted(Pace.LIVE, 1.0) == [partition]


def test_a_partition_behind_for_several_answers_moves_to_the_catch_up_connection_and_back() -> None:
    made = slot()
    partition = partition_of(made)
    for base in range(3):
        give(made, partition, fetched((base, [BIG])), end=100)
    behind = partition.pace

    give(made, partition, fetched((3, [BIG])), end=4)

    assert (behind, partition.pace) == (Pace.CATCH_UP, Pace.LIVE)


def test_a_corrupt_batch_stops_its_partition_and_sends_what_came_before() -> None:
    made = slot(entry(0), entry(1))
    partition = partition_of(made)
    frame = fetched((0, [BIG]), (1, [BIG]))
    frame[-1] ^= 1

    give(made, partition, frame, end=2)

    assert partition.fault is not None
    assert partition.fault.reason is FaultReason.SOURCE_CORRUPT
    assert partition.fault.offset == 1
    assert [q.batch.first for q in partition.queue] == [0]
    assert made.wanted(Pace.LIVE, 1.0) == [partition_of(made, 1)]


def test_an_answer_that_overlaps_what_was_walked_brings_nothing_twice() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=3)

    give(made, partition, fetched((0, [BIG]), (1, [BIG]), (2, [BIG])), end=3)

    assert [q.batch.first for q in partition.queue] == [0, 1, 2]


def test_a_batch_refused_for_its_size_is_cut_smaller_and_a_single_record_stops() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG, BIG])), end=2)
    pair = made.next_batch(partition).batch

    cut = made.refused_size(partition, pair)
    assert partition.terms.max_batch_bytes == pair.size // 2
    assert made.wanted(Pace.LIVE, 1.0) == [partition]
    partition.rewind()
    partition.terms = terms_of(partition.entry, limit=3_200)
    give(made, partition, fetched((0, [BIG, BIG])), end=2)
    single = made.next_batch(partition).batch
    stops = made.refused_size(partition, single)

    assert cut is None
    assert stops is not None
    assert (stops.reason, stops.offset) == (FaultReason.RECORD_TOO_LARGE, 0)


def test_a_dismissed_partition_keeps_its_position_known() -> None:
    made = slot()
    position = Position(
        identity=identity(),
        next_source=partition_of(made).committed.next_source,
        leader_epoch=0,
        next_target=TargetOffset(7),
        records=7,
        bytes=70,
        time_ms=1,
    )
    made.committed([position], 1.0)

    made.dismiss(identity())

    assert made.known[identity()].next_target == 7
    assert made.find(identity().source_topic_id, 0) is None


def test_what_refusals_taught_outlives_a_new_producer_id_and_positions_do_not() -> None:
    made = slot()
    partition = partition_of(made)
    fault = Fault(FaultReason.KEY_MISSING, SourceOffset(0), "no key")
    partition.terms = terms_of(partition.entry, limit=100)
    partition.reported = fault
    made.fault(partition, fault, 1.0)
    partition.walked_to = SourceOffset(2)

    made.forget_all()
    again = made.admit(partition.entry, partition.committed)

    assert (again.fault, again.fault_since, again.reported) == (fault, 1.0, fault)
    assert (again.terms.max_batch_bytes, again.walked_to) == (100, 0)


def test_what_refusals_taught_is_forgotten_where_another_owner_went_past_the_fault() -> None:
    made = slot()
    partition = partition_of(made)
    made.fault(partition, Fault(FaultReason.KEY_MISSING, SourceOffset(2), "no key"), 1.0)

    made.forget_all()
    beyond = replace(partition.committed, next_source=SourceOffset(3))

    assert made.admit(partition.entry, beyond).fault is None


def test_new_limits_of_the_target_heal_what_the_old_ones_stopped() -> None:
    made = slot()
    partition = partition_of(made)
    made.fault(partition, Fault(FaultReason.RECORD_TOO_LARGE, SourceOffset(2), "large"), 1.0)
    made.renew(replace(partition.entry, priority=Priority.HIGH))
    still = partition.fault

    made.renew(replace(partition.entry, target_max_batch_bytes=2_000_000))

    assert still is not None
    assert partition.fault is None
    assert partition.terms.max_batch_bytes == 2_000_000


def test_a_record_that_is_left_out_stays_so_until_a_commit_has_passed_it() -> None:
    made = slot()
    partition = made.partitions[identity()]
    left = LeftOut(Span(SourceOffset(1), SourceOffset(2)), FaultReason.KEY_MISSING, "why")
    partition.left_out.append(left)
    made.heal(partition)
    give(made, partition, fetched((0, [b"a", b"b", b"c"])), end=3)

    batch = partition.queue[0].batch
    assert (batch.first, batch.next_offset, batch.count, batch.holes) == (0, 3, 2, ((1, 1),))
    assert partition.passed(SourceOffset(1)) == []
    assert partition.passed(SourceOffset(3)) == [left]

    made.committed([replace(partition.committed, next_source=SourceOffset(1))], 2.0)
    assert partition.terms.left_out == ((1, 2),)
    made.committed([replace(partition.committed, next_source=SourceOffset(3))], 2.0)
    assert partition.left_out == []
    assert len(partition.terms.left_out) == 0


def test_what_is_left_out_outlives_a_new_producer_id_but_not_a_commit_that_passed_it() -> None:
    made = slot()
    left = LeftOut(Span(SourceOffset(1), SourceOffset(2)), FaultReason.KEY_MISSING, "why")
    for next_source, kept in ((0, [left]), (2, [])):
        partition = made.partitions[identity()]
        partition.left_out = [left]
        position = replace(partition.committed, next_source=SourceOffset(next_source))
        made.forget_all()
        assert made.admit(entry(), position).left_out == kept


def test_an_incarnation_that_ends_does_not_take_the_next_ones_fetches_with_it() -> None:
    made = slot()
    later = entry(identity=replace(identity(), incarnation=1))
    made.admit(later, start_position(later.identity, SourceOffset(0), 1))

    made.dismiss(identity())

    found = made.find(SOURCE_TOPIC, 0)
    assert found is not None
    assert found.identity == later.identity


def test_new_limits_of_the_target_heal_nothing_that_the_source_lost() -> None:
    made = slot()
    partition = partition_of(made)
    made.fault(partition, Fault(FaultReason.SOURCE_TRUNCATED, SourceOffset(2), "gone"), 1.0)

    made.renew(replace(partition.entry, target_max_batch_bytes=2_000_000))

    assert partition.fault is not None


def test_a_lone_record_over_a_guessed_limit_is_left_to_the_target() -> None:
    made = slot()
    partition = partition_of(made)
    partition.terms = terms_of(partition.entry, limit=1_000)

    give(made, partition, fetched((0, [BIG, BIG])), end=2)

    assert partition.fault is None
    assert [q.batch.first for q in partition.queue] == [0, 1]


def test_refusals_of_one_batch_are_counted_and_another_begins_anew() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=2)
    first, second = (made.next_batch(partition).batch for _ in range(2))

    counts = [made.refused_again(partition, each) for each in (first, first, second, second)]

    assert counts == [1, 2, 1, 2]


def test_settled_is_past_markers_and_never_past_what_waits_or_is_in_the_open_transaction() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG])), end=1)
    assert made.settled(partition) == 0

    made.next_batch(partition)
    made.open = {partition: Touch(TargetOffset(0))}
    assert made.settled(partition) == 0

    made.open = {}
    assert made.settled(partition) == 1


def test_nobody_waits_for_the_more_urgent_that_cannot_be_committed() -> None:
    shared = Urgency()
    made = slot(entry(0, priority=Priority.HIGH), urgency=shared)
    other = slot(entry(1), urgency=shared, number=1)
    high, normal = partition_of(made, 0), partition_of(other, 1)
    high.pace = normal.pace = Pace.CATCH_UP
    high.progress_at = 100.0

    assert made.wanted(Pace.CATCH_UP, 105.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 105.0) == []
    assert made.wanted(Pace.CATCH_UP, 111.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 111.0) == [normal]
    made.committed([replace(high.committed, next_source=SourceOffset(1))], 112.0)
    assert made.wanted(Pace.CATCH_UP, 113.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 113.0) == []


def test_who_waited_for_its_turn_has_not_stood_still_when_it_comes() -> None:
    shared = Urgency()
    entries = [entry(0, priority=Priority.HIGH), entry(1), entry(2, priority=Priority.LOW)]
    made = slot(*entries, urgency=shared)
    high, normal, low = (partition_of(made, number) for number in range(3))
    high.pace = normal.pace = low.pace = Pace.CATCH_UP
    for now in (1.0, 100.0):
        high.progress_at = now
        assert made.wanted(Pace.CATCH_UP, now) == [high]
    assert (made.waits(high), made.waits(normal), made.waits(low)) == (False, True, True)

    high.pace = Pace.LIVE

    assert made.wanted(Pace.CATCH_UP, 101.0) == [normal]
    assert (made.waits(normal), made.waits(low)) == (False, True)
    assert (normal.progress_at, low.progress_at) == (100.0, 101.0)


def test_what_is_known_of_a_partition_outlives_a_new_producer_id_unless_others_copied_on() -> None:
    made = slot()
    for next_source, known in ((0, (7, 9, 5.0, 50)), (1, (-1, -1, 0.0, -1))):
        partition = partition_of(made)
        partition.first_timestamp, partition.last_timestamp, partition.progress_at = 7, 9, 5.0
        partition.source = SourceEnds(50, 50, 0)
        position = replace(partition.committed, next_source=SourceOffset(next_source))
        made.forget_all()
        again = made.admit(entry(), position)
        times = (again.first_timestamp, again.last_timestamp, again.progress_at)
        assert (*times, again.source.last_stable) == known


def test_the_horizon_of_a_cleaner_is_not_taken_for_the_time_of_what_came_first() -> None:
    made = slot()
    partition = partition_of(made)
    cleaned = patched(fetched((0, [BIG])), attributes=0x40, base_timestamp=9_000)
    give(made, partition, cleaned, end=1)

    assert partition.first_timestamp == 1_000


def test_nobody_waits_for_the_more_urgent_that_is_throttled() -> None:
    shared = Urgency()
    made = slot(entry(0, priority=Priority.HIGH, throttle=65_536), urgency=shared)
    other = slot(entry(1), urgency=shared, number=1)
    high, normal = partition_of(made, 0), partition_of(other, 1)
    high.pace = normal.pace = Pace.CATCH_UP

    assert made.wanted(Pace.CATCH_UP, 1.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 1.0) == [normal]


def test_another_throttle_forgets_what_the_one_before_held_back() -> None:
    made = slot(entry(0, throttle=65_536))
    partition = partition_of(made)
    partition.spend(6_553_600, 1.0)
    assert made.wanted(Pace.LIVE, 100.0) == []

    made.renew(entry(0))
    assert made.wanted(Pace.LIVE, 100.0) == [partition]


def test_of_what_catches_up_the_most_urgent_of_the_worker_goes_first() -> None:
    shared = Urgency()
    entries = [entry(0, priority=Priority.HIGH), entry(1), entry(2, priority=Priority.LOW)]
    made, other = slot(*entries, urgency=shared), slot(entry(3), urgency=shared, number=1)
    for partition in (*made.partitions.values(), *other.partitions.values()):
        partition.pace = Pace.CATCH_UP
    high, normal, low = (partition_of(made, number) for number in range(3))

    assert made.wanted(Pace.CATCH_UP, 1.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 1.0) == []
    high.pace = Pace.LIVE
    assert made.wanted(Pace.CATCH_UP, 1.0) == [normal]
    assert made.wanted(Pace.LIVE, 1.0) == [high]
    assert other.wanted(Pace.CATCH_UP, 1.0) == [partition_of(other, 3)]
    normal.fault = Fault(FaultReason.SOURCE_MISSING, SourceOffset(0), "")
    other.rewind()
    assert made.wanted(Pace.CATCH_UP, 1.0) == [low]
