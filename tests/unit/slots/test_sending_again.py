"""Partitions that could not be added to a transaction because another broker was adding some."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NotRequired, TypedDict

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.outgoing import AbortError
from tests.faultkit.waiting import until
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import POSITIONS, Target, sender_of

if TYPE_CHECKING:
    from tests.unit.slots.stubs import Runner

BACKLOG = 100
ADDED = [ErrorCode.NONE] * 2
LATE = "produce east.orders-2"


def waiting(runner: Runner, number: int, *offsets: int) -> None:
    """Records of a source that has more of them."""
    frame = fetched(*((offset, [ALONE]) for offset in offsets))
    give(runner.slot, runner.slot.partitions[identity(number)], frame, end=BACKLOG)
    runner.wake()


class How(TypedDict):
    """What `copied` is told by name."""

    brokers: int
    sent: int
    hard_s: NotRequired[float]
    muted_s: NotRequired[float]


async def copied(
    target: Target,
    late: tuple[int, ...],
    *,
    brokers: int,
    sent: int,
    hard_s: float = 5.0,
    muted_s: float = 0.0,
) -> Runner:
    """A transaction is open at all brokers when records of partition 2 come; it ends behind them.

    Before any answer that many of its batches are `sent`; then brokers want silence for `muted_s`.
    """
    sender, runner = sender_of(target, entry(0), entry(1), entry(2))
    runner.targets.of = lambda topic, partition: LeaderAt(partition % brokers, 0)
    runner.commits = replace(runner.commits, hard_s=hard_s)
    for number in range(2):
        waiting(runner, number, 0)
    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sender.transact())
        await until(lambda: len(target.held) == brokers, deadline_s=5, what="first requests")
        waiting(runner, 2, *late)
        answer(target)
        await until(lambda: LATE in target.seen, deadline_s=5, what="the late one")
        for _ in range(10):
            await asyncio.sleep(0)
        assert target.seen.count(LATE) == sent
        for lane in runner.lanes:
            lane.connection.muted_s = muted_s
        target.hold_data, runner.stopping = False, True
        answer(target)
        await task
    return runner


def answer(target: Target) -> None:
    while target.held:
        target.held.pop(0)()


async def test_it_is_sent_again_as_it_is_and_nothing_of_its_partition_comes_before() -> None:
    target = Target()
    target.refuse("east.orders", *ADDED, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 2)

    runner = await copied(target, (0, 1), brokers=2, sent=1)

    late = [sequence for *at, sequence in target.sequences if at == ["east.orders", 2]]
    assert late == [0, 0, 0]
    (positions,) = runner.commits_seen
    assert {each.identity.partition: each.next_source for each in positions}[2] == 1
    assert target.seen[-1] == "commit"


@pytest.mark.parametrize(
    ("late", "how", "said"),
    [
        ((0, 1), {"brokers": 1, "sent": 2}, "CONCURRENT_TRANSACTIONS"),
        ((0,), {"brokers": 2, "sent": 1, "hard_s": 0.0}, "CONCURRENT_TRANSACTIONS"),
        ((0,), {"brokers": 2, "sent": 1, "muted_s": 10.0}, "east.orders-2 was not added"),
    ],
    ids=[
        "others follow at once behind one broker",
        "as old as any may be",
        "a quota wants silence",
    ],
)
async def test_it_is_given_up_and_nothing_is_committed(
    late: tuple[int, ...], how: How, said: str
) -> None:
    target = Target()
    target.refuse("east.orders", *ADDED, ErrorCode.CONCURRENT_TRANSACTIONS)

    with pytest.raises(ExceptionGroup) as raised:
        await copied(target, late, **how)

    assert raised.group_contains(AbortError, match=said)
    assert "commit" not in target.seen


async def test_a_position_that_could_not_be_added_is_sent_again_too() -> None:
    target = Target()
    target.refuse(POSITIONS.topic, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    sender, runner = sender_of(target)
    give(runner.slot, runner.slot.partitions[identity()], fetched((0, [ALONE])), end=1)

    assert await sender.transact()

    assert [one for one in target.seen if one.startswith("produce positions")] == [
        "produce positions-0,segments-0",
        "produce positions-0",
    ]
    assert target.seen[-1] == "commit"
