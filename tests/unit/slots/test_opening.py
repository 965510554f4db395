"""The first requests of a transaction, where its partitions have leaders on several brokers."""

from __future__ import annotations

import asyncio

import pytest

from mirrorfleet.copying.faults import Action
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, FencedError, MirrorfleetError
from mirrorfleet.kafka.transactions import NotAddedError, TransactionVersion
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.sending import Sender
from tests.faultkit.waiting import until
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import SEGMENTS, Lane, Runner, Target, sender_of


def on_two_brokers(
    target: Target, version: TransactionVersion = TransactionVersion.V2
) -> tuple[Sender, Runner]:
    """Two partitions, positions and segments, each two with leaders on brokers 1 and 2."""
    sender, runner = sender_of(target, entry(0), entry(1), version=version)
    second = {("east.orders", 1), tuple(SEGMENTS)}
    runner.targets.of = lambda *at: LeaderAt(1 + (at in second), 0)
    for number in range(2):
        partition = runner.slot.partitions[identity(number)]
        give(runner.slot, partition, fetched((0, [ALONE])), end=1)
    return sender, runner


async def test_what_is_taken_back_while_another_broker_is_connected_to_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target()
    sender, runner = on_two_brokers(target)
    connect = runner.produce_lane

    async def slow(node: int, name: str) -> Lane:
        if node == 2:
            runner.slot.hold_back(runner.slot.partitions[identity(1)], 60.0)
        return await connect(node, name)

    monkeypatch.setattr(runner, "produce_lane", slow)
    assert await sender.transact()

    assert "produce east.orders-0" in target.seen
    assert "produce east.orders-1" not in target.seen
    assert target.seen[-1] == "commit"


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_several_brokers_get_their_first_requests_side_by_side_and_added_before(
    version: TransactionVersion,
) -> None:
    target = Target()
    sender, _ = on_two_brokers(target, version)

    assert await sender.transact()

    assert target.seen == [
        "add east.orders-0,east.orders-1",
        "produce east.orders-0",
        "produce east.orders-1",
        "ack east.orders-0",
        "ack east.orders-1",
        "add positions-0,segments-0",
        "produce positions-0",
        "produce segments-0",
        "ack positions-0",
        "ack segments-0",
        "commit",
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, "add"),
        BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "add"),
        DeadlineError("no answer"),
    ],
)
async def test_where_nothing_can_be_added_first_requests_follow_one_another(
    trouble: MirrorfleetError,
) -> None:
    target = Target()
    sender, runner = on_two_brokers(target)
    runner.coordinator.trouble = trouble

    assert await sender.transact()

    assert target.seen[:5] == [
        "add east.orders-0,east.orders-1",
        "produce east.orders-0",
        "ack east.orders-0",
        "produce east.orders-1",
        "ack east.orders-1",
    ]
    assert target.seen[-1] == "commit"


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Action.DENIED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Action.ABORT),
    ],
)
async def test_a_partition_that_the_coordinator_refuses_is_to_blame_alone_with_v1(
    code: ErrorCode, action: Action
) -> None:
    target = Target()
    sender, runner = on_two_brokers(target, TransactionVersion.V1)
    second = runner.slot.partitions[identity(1)]
    runner.coordinator.trouble = NotAddedError(code, "add", second.target)

    with pytest.raises(AbortError) as refused:
        await sender.transact()

    assert (refused.value.action, refused.value.partition) == (action, second)
    assert refused.value.batch is not None
    assert target.seen == ["add east.orders-0,east.orders-1"]


async def test_of_a_control_partition_that_is_refused_the_whole_slot_hears() -> None:
    target = Target()
    sender, runner = on_two_brokers(target, TransactionVersion.V1)
    refused = NotAddedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "add", SEGMENTS)
    runner.coordinator.trouble = refused

    with pytest.raises(NotAddedError):
        await sender.transact()


async def test_whoever_is_fenced_at_an_addition_hears_it_and_ends_what_it_may_have_begun() -> None:
    target = Target()
    sender, runner = on_two_brokers(target)
    runner.coordinator.trouble = FencedError("another owner")

    with pytest.raises(FencedError):
        await sender.transact()
    assert target.seen == ["add east.orders-0,east.orders-1"]
    await sender.abort()
    assert target.seen[-1] == "abort"


async def test_only_the_broker_that_refused_is_sent_to_again() -> None:
    target = Target()
    target.refuse("east.orders", ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS)
    sender, _ = on_two_brokers(target)

    assert await sender.transact()

    assert [each for each in target.seen if each.startswith("produce east")] == [
        "produce east.orders-0",
        "produce east.orders-1",
        "produce east.orders-1",
    ]


async def test_where_a_leader_moves_the_new_one_gets_nothing_before_the_old_one_has_answered() -> (
    None
):
    """Else the answers for one partition could come in another order than it was sent in."""
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]

    def more(first: int) -> None:
        give(runner.slot, partition, fetched((first, [ALONE])), end=4)
        runner.wake()

    more(0)
    async with asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        target.held.pop()()
        more(1)
        await until(lambda: target.held, deadline_s=5, what="a batch for the old leader")
        runner.targets.of = lambda *_: LeaderAt(2, 1)
        more(2)
        for _ in range(20):
            await asyncio.sleep(0)
        target.hold_data = False
        for reply in reversed(target.held):  # a request that has to wait for another partition
            reply()
    while runner.slot.ready:
        await sender.transact()

    assert copying.result()
    assert len(runner.lanes) == 2
    assert target.seen.count("produce east.orders-0") == 3
    assert (partition.committed.next_source, partition.committed.next_target) == (3, 3)
