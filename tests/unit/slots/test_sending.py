from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mirrorfleet.copying.faults import Action
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.positions import Snapshot
from mirrorfleet.slots.outgoing import AbortError, ControlEntry, RetakeError
from mirrorfleet.wire.records import control_batch
from tests.faultkit.waiting import until
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import POSITIONS, SEGMENTS, Target, sender_of


async def test_data_then_positions_and_segments_then_the_end_each_acknowledged_first() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)

    assert await sender.transact()

    assert target.seen == [
        "produce east.orders-0",
        "ack east.orders-0",
        "produce positions-0,segments-0",
        "ack positions-0,segments-0",
        "commit",
    ]


async def test_positions_are_not_sent_while_a_data_batch_is_unacknowledged() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the data to be sent")
        assert target.seen == ["produce east.orders-0"]
        target.held.pop()()

    assert target.seen[-1] == "commit"


async def test_nothing_follows_the_first_request_until_it_is_accepted() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    frame = fetched((0, [ALONE]), (1, [ALONE]), (2, [ALONE]))
    give(runner.slot, runner.slot.partitions[identity()], frame, end=3)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        assert target.seen == ["produce east.orders-0"]
        target.hold_data = False
        target.held.pop()()

    assert target.seen.count("produce east.orders-0") == 3


async def test_a_full_pipe_is_filled_up_after_a_quarter_of_its_answers_and_not_after_each() -> None:
    target = Target()
    sender, runner = sender_of(target)
    frame = fetched(*((offset, [ALONE]) for offset in range(30)))
    give(runner.slot, runner.slot.partitions[identity()], frame, end=30)
    produced: list[int] = []

    def sent() -> int:
        return target.seen.count("produce east.orders-0")

    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        target.held.pop()()
        await until(lambda: sent() == 17, deadline_s=5, what="sixteen more in flight")
        for _ in range(4):
            target.held.pop(0)()
            for _ in range(10):
                await asyncio.sleep(0)
            produced.append(sent())
        target.hold_data = False
        for reply in target.held:
            reply()

    assert produced == [17, 17, 17, 21]
    assert sent() == 30
    assert target.seen[-1] == "commit"


async def test_a_partition_whose_leader_must_be_asked_first_is_left_out() -> None:
    target = Target()
    sender, runner = sender_of(target, entry(0), entry(1))
    for number in range(2):
        partition = runner.slot.partitions[identity(number)]
        give(runner.slot, partition, fetched((0, [ALONE])), end=1)
    runner.doubts.doubted.add(TopicPartition("east.orders", 0))

    assert await sender.transact()
    assert target.seen[0] == "produce east.orders-1"
    assert "produce east.orders-0" not in target.seen


async def test_what_the_spare_id_should_not_write_to_is_left_out() -> None:
    target = Target()
    sender, runner = sender_of(target, entry(0), entry(1))
    for number in range(2):
        partition = runner.slot.partitions[identity(number)]
        give(runner.slot, partition, fetched((0, [ALONE])), end=1)
    runner.wedges.avoided = frozenset({TopicPartition("east.orders", 0)})

    assert await sender.transact()
    assert target.seen[0] == "produce east.orders-1"


async def test_nothing_is_begun_while_positions_are_in_doubt_and_then_nothing_is_aborted() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=2)
    assert await sender.transact()
    give(runner.slot, runner.slot.partitions[identity()], fetched((1, [ALONE])), end=2)
    target.seen.clear()
    runner.doubts.must_wait = True

    with pytest.raises(AbortError):
        await sender.transact()
    await sender.abort()

    assert target.seen == ["close"]
    assert sender.producer.epoch == 1


async def test_nothing_is_begun_where_positions_have_no_leader_or_their_connection_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target()
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    leader = runner.targets.of
    runner.targets.of = lambda *at: None if at == SEGMENTS else leader(*at)
    with pytest.raises(AbortError, match="segments-0 has no leader"):
        await sender.transact()

    async def lost(node: int, name: str) -> None:
        raise AbortError(f"the connection to target broker {node} was lost")

    runner.targets.of = leader
    sender.close()
    monkeypatch.setattr(runner, "produce_lane", lost)
    with pytest.raises(AbortError, match="was lost"):
        await sender.transact()
    assert not any("produce" in each for each in target.seen)


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_positions_in_doubt_are_neither_added_nor_written(
    version: TransactionVersion,
) -> None:
    target = Target()
    sender, runner = sender_of(target, version=version)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    runner.doubts.refuses = True
    with pytest.raises(AbortError):
        await sender.transact()
    assert "produce east.orders-0" in target.seen
    assert not any("positions" in each for each in target.seen)
    assert runner.doubts.control_ends == {}

    runner.doubts.refuses = False
    runner.slot.rewind()
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    assert await sender.transact()
    assert runner.doubts.control_ends == {POSITIONS: 1, SEGMENTS: 1}


async def test_a_login_that_is_due_is_renewed_before_control_records_are_sent_too() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the data")
        runner.lanes[0].connection.must_wait = True
        target.held.pop()()

    at = target.seen.index("ready")
    assert target.seen[at - 1] == "ack east.orders-0"
    assert target.seen[at + 1] == "produce positions-0,segments-0"
    assert target.seen[-1] == "commit"


async def test_only_what_was_refused_is_sent_again_with_the_same_sequence() -> None:
    target = Target()
    target.refuse("east.orders", ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    sender, runner = sender_of(target, entry(0), entry(1))
    for number in range(2):
        give(runner.slot, runner.slot.partitions[identity(number)], fetched((0, [ALONE])), end=1)

    assert await sender.transact()

    produced = [each for each in target.seen if each.startswith("produce east")]
    assert produced == ["produce east.orders-0,east.orders-1", "produce east.orders-0"]
    assert target.sequences[:3] == [
        ("east.orders", 0, 0),
        ("east.orders", 1, 0),
        ("east.orders", 0, 0),
    ]


async def test_a_refusal_that_may_have_been_appended_aborts() -> None:
    target = Target()
    target.refuse("east.orders", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)

    with pytest.raises(AbortError) as raised:
        await sender.transact()

    assert raised.value.action is Action.ABORT
    assert "commit" not in target.seen


async def test_a_batch_that_is_too_large_names_itself_and_nothing_is_committed() -> None:
    target = Target()
    target.refuse("east.orders", ErrorCode.MESSAGE_TOO_LARGE)
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    give(runner.slot, partition, fetched((0, [ALONE])), end=1)

    with pytest.raises(AbortError) as raised:
        await sender.transact()

    assert raised.value.action is Action.SPLIT
    assert raised.value.partition is partition
    assert runner.commits_seen == []


async def test_an_abort_of_v2_closes_connections_before_the_end_and_begins_an_epoch() -> None:
    target = Target()
    target.refuse("east.orders", ErrorCode.REQUEST_TIMED_OUT)
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    with pytest.raises(AbortError):
        await sender.transact()

    await sender.abort()

    assert target.seen[-2:] == ["close", "abort"]
    assert sender.producer.epoch == 1
    assert runner.slot.sequences == {}


async def test_v1_adds_each_partition_once_before_its_first_produce() -> None:
    target = Target()
    sender, runner = sender_of(target, version=TransactionVersion.V1)
    frame = fetched((0, [ALONE]), (1, [ALONE]))
    give(runner.slot, runner.slot.partitions[identity()], frame, end=2)

    assert await sender.transact()

    assert [each for each in target.seen if not each.startswith("ack")] == [
        "add east.orders-0",
        "produce east.orders-0",
        "produce east.orders-0",
        "add positions-0,segments-0",
        "produce positions-0,segments-0",
        "commit",
    ]


async def test_v1_goes_on_counting_sequences_in_its_epoch_and_v2_begins_at_zero() -> None:
    for version, expected in (
        (TransactionVersion.V1, {("east.orders", 0): 1, ("positions", 0): 1, ("segments", 0): 1}),
        (TransactionVersion.V2, {}),
    ):
        sender, runner = sender_of(Target(), version=version)
        give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
        await sender.transact()
        assert runner.slot.sequences == expected


async def test_no_transaction_of_v1_begins_in_an_epoch_of_which_a_request_went_out_twice() -> None:
    target = Target()
    sender, runner = sender_of(target, version=TransactionVersion.V1)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    runner.coordinator.resent = True

    with pytest.raises(RetakeError):
        await sender.transact()
    with pytest.raises(RetakeError):
        await sender.commit_control([ControlEntry(POSITIONS, control_batch([(b"k", b"v")], 5))])

    assert target.seen == []


async def test_v2_goes_on_after_a_request_that_went_out_twice() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)
    runner.coordinator.resent = True

    assert await sender.transact()
    await sender.commit_control([ControlEntry(POSITIONS, control_batch([(b"k", b"v")], 5))])

    assert target.seen.count("commit") == 2


async def test_nothing_to_send_ends_without_a_transaction() -> None:
    target = Target()
    sender, _ = sender_of(target)

    assert not await sender.transact()

    assert target.seen == []


async def test_a_position_that_moved_by_skipping_is_committed_when_the_slot_stops() -> None:
    target = Target()
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    partition.walked_to = type(partition.walked_to)(9)
    runner.stopping = True

    assert await sender.transact()

    assert target.seen == ["produce positions-0", "ack positions-0", "commit"]
    assert partition.committed.next_source == 9


async def test_an_append_below_the_last_one_aborts_and_carries_the_fault() -> None:
    target = Target()
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    for base in range(2):
        give(runner.slot, partition, fetched((base, [ALONE])), end=base + 1)
        if base == 0:
            await sender.transact()
    target.bases["east.orders", 0] = 0

    with pytest.raises(AbortError) as raised:
        await sender.transact()

    assert raised.value.fault is not None
    assert raised.value.partition is partition


async def test_positions_that_are_appended_below_those_before_are_all_written_again() -> None:
    target = Target()
    sender, runner = sender_of(target)
    made = runner.slot

    def stated() -> Sequence[object]:
        return made.snapshots.stated(made.known, [], 5)

    give(made, made.partitions[identity()], fetched((0, [ALONE])), end=1)
    assert await sender.transact()
    stated()
    made.snapshots.committed()
    assert stated() == []  # what the owner took over was stated with the first commit

    target.bases[POSITIONS] = 0
    give(made, made.partitions[identity()], fetched((1, [ALONE])), end=2)
    with pytest.raises(AbortError, match="positions-0 lost records"):
        await sender.transact()
    assert isinstance(stated()[0], Snapshot)

    await sender.abort()
    made.rewind()
    give(made, made.partitions[identity()], fetched((1, [ALONE])), end=2)
    assert await sender.transact()  # it is believed where it is now


async def test_a_snapshot_counts_once_its_commit_does_with_data_or_without() -> None:
    sender, runner = sender_of(Target())
    runner.slot.snapshots.stated({}, (), 5)
    await sender.commit_control([ControlEntry(POSITIONS, control_batch([(None, b"all")], 5))])

    assert not runner.slot.snapshots.is_due
