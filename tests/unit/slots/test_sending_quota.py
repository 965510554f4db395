"""A target's quota that wants silence: no transaction is open for longer than it can be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.schedule import LONGEST_BURST, Burst
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.outgoing import AbortError
from tests.faultkit.waiting import until
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import POSITIONS, SEGMENTS, Runner, Target, sender_of

if TYPE_CHECKING:
    from mirrorfleet.slots.sending import Sender

DATA = "produce east.orders-"


def give_one(runner: Runner, number: int, at: int = 0) -> None:
    """A record of a partition, and one that its source still has: a backlog."""
    partition = runner.slot.partitions[identity(number)]
    give(runner.slot, partition, fetched((at, [ALONE])), end=at + 2)


def mute(runner: Runner, lane: int, silence_s: float) -> None:
    """The broker of a lane wants silence."""
    line = runner.lanes[lane].connection
    line.must_wait, line.muted_s = True, silence_s


def unmute(runner: Runner, lane: int) -> None:
    """The silence is over."""
    line = runner.lanes[lane].connection
    line.must_wait, line.muted_s = False, 0.0


async def begun(count: int) -> tuple[Target, Sender, Runner]:
    """A slot that has committed a record of each partition; partition 1 and positions are led by
    broker 1 (lane 0), partition 0 by broker 2 (lane 1).
    """
    target = Target()
    sender, runner = sender_of(target, *(entry(number) for number in range(count)))
    runner.targets.of = lambda topic, partition: LeaderAt(
        2 if (topic, partition) == ("east.orders", 0) else 1, 0
    )
    for number in range(count):
        give_one(runner, number)
    assert await sender.transact()
    target.seen.clear()
    return target, sender, runner


async def copied_into_a_silence(
    target: Target, sender: Sender, runner: Runner, lane: int, silence_s: float
) -> None:
    """A transaction whose first answer says that the broker of a lane wants silence."""
    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        mute(runner, lane, silence_s)
        target.held.pop()()


async def test_a_silence_ends_the_transaction_with_what_it_has() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give_one(runner, 0)
    give_one(runner, 0, 1)
    await copied_into_a_silence(target, sender, runner, 0, 9.0)

    assert target.seen.count(f"{DATA}0") == 1
    assert target.seen[-1] == "commit"
    assert runner.slot.ready


async def test_more_is_on_its_way_once_all_before_was_taken_without_a_word() -> None:
    target = Target()
    sender, runner = sender_of(target)
    runner.burst.most = 1
    for at in range(6):
        give_one(runner, 0, at)
    target.hold_data = True
    sent = []
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        for _ in range(5):
            await until(lambda: target.held, deadline_s=5, what="the next requests")
            await asyncio.sleep(0)
            sent.append(target.seen.count(f"{DATA}0"))
            while target.held:
                target.held.pop(0)()

    assert sent == [1, 2, 3, 5, 6]
    assert target.seen.count("commit") == 1


async def test_of_many_partitions_a_request_takes_what_the_quota_lets_pass() -> None:
    target = Target()
    sender, runner = sender_of(target, entry(0), entry(1))
    runner.burst.most = 1
    give_one(runner, 0)
    give_one(runner, 1)

    assert await sender.transact()
    assert [each for each in target.seen if each.startswith("produce east")] == [
        f"{DATA}0",
        f"{DATA}1",
    ]


async def test_a_transaction_that_fails_in_a_silence_has_been_too_large() -> None:
    target, sender, runner = await begun(1)
    for at in (1, 2):
        give_one(runner, 0, at)
    target.hold_data = True
    target.refuse("east.orders", ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)

    async def silence() -> None:
        for silence_s in (0.0, 40.0):
            await until(lambda: target.held, deadline_s=5, what="a request")
            runner.lanes[1].connection.muted_s = silence_s
            target.held.pop()()

    with pytest.raises(AbortError):
        await asyncio.gather(sender.transact(), silence())
    assert runner.burst.most < LONGEST_BURST // 4


async def test_what_was_learned_of_a_quota_outlives_the_abort_that_its_silence_causes() -> None:
    target, sender, runner = await begun(1)
    give_one(runner, 0, 1)
    target.hold_data = True
    target.refuse("positions", ErrorCode.INVALID_PRODUCER_EPOCH)
    learned: list[int] = []

    class Learning(Burst):
        def answered(self, sent_bytes: int, silence_s: float) -> None:
            super().answered(sent_bytes, silence_s)
            if silence_s > 0:
                learned.append(self.most)
                unmute(runner, 1)  # it was waited for

    async def silence() -> None:
        await until(lambda: target.held, deadline_s=5, what="the data")
        mute(runner, 1, 40.0)
        target.held.pop()()

    runner.burst = Learning()
    with pytest.raises(AbortError):
        await asyncio.gather(sender.transact(), silence())
    assert [runner.burst.most] == learned


async def test_a_long_silence_makes_the_next_transaction_smaller() -> None:
    target, sender, runner = await begun(1)
    give_one(runner, 0, 1)
    await copied_into_a_silence(target, sender, runner, 1, 8.0)

    assert 0 < runner.burst.most < LONGEST_BURST // 4
    assert target.seen[-1] == "commit"  # the positions go to another broker


async def test_nothing_is_begun_while_the_broker_of_the_positions_wants_silence() -> None:
    target, sender, runner = await begun(1)
    assert {runner.targets.of(*at).node for at in (POSITIONS, SEGMENTS)} == {1}
    mute(runner, 0, 0.05)
    asyncio.get_running_loop().call_later(0.1, unmute, runner, 0)
    give_one(runner, 0, 1)
    async with asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        await until(lambda: target.seen, deadline_s=5, what="the first request")
        assert runner.lanes[0].connection.muted_s == 0.0
    assert copying.result()


async def test_the_others_go_on_while_one_broker_wants_silence() -> None:
    target, sender, runner = await begun(2)
    mute(runner, 1, 60.0)  # broker 2
    give_one(runner, 0, 1)
    give_one(runner, 1, 1)

    assert await sender.transact()
    assert f"{DATA}1" in target.seen
    assert f"{DATA}0" not in target.seen
    assert target.seen[-1] == "commit"
    assert runner.burst.most == LONGEST_BURST  # the silence is of another transaction


async def test_where_all_brokers_with_something_to_get_want_silence_none_is_begun() -> None:
    target, sender, runner = await begun(1)
    mute(runner, 1, 0.4)  # longer than a busy transaction
    give_one(runner, 0, 1)
    before = asyncio.get_running_loop().time()

    assert not await sender.transact()
    assert target.seen == []
    assert asyncio.get_running_loop().time() - before >= 0.4
    unmute(runner, 1)
    assert await sender.transact()
