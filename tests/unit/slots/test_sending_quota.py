"""A target's quota that wants silence: no transaction is open for longer than it can be."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.allowance import Allowance
from mirrorfleet.copying.schedule import CommitPolicy
from mirrorfleet.core.errors import FencedError
from mirrorfleet.kafka.transactions import TransactionVersion
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


def now() -> float:
    """What the sender's clock says."""
    return asyncio.get_running_loop().time()


def unproven(target: Target, *entries: object) -> tuple[Sender, Runner]:
    """A sender whose brokers took nothing so far."""
    sender, runner = sender_of(target, *entries)
    runner.allowances = defaultdict(Allowance)
    return sender, runner


def room(runner: Runner, node: int = 1) -> int:
    """What a broker is known to take."""
    return runner.allowances[node].room(now())


def mute(runner: Runner, lane: int, silence_s: float) -> None:
    """The broker of a lane wants silence of it."""
    line = runner.lanes[lane].connection
    line.must_wait, line.muted_s = True, silence_s


def quiet(runner: Runner, node: int, silence_s: float) -> None:
    """A broker tells another slot of its silence."""
    runner.allowances[node].sent(0, now())
    runner.allowances[node].answered(0, now(), now(), silence_s)


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


async def test_a_silence_ends_the_transaction_with_what_it_has() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give_one(runner, 0)
    give_one(runner, 0, 1)
    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        mute(runner, 0, 9.0)
        target.held.pop()()

    assert target.seen.count(f"{DATA}0") == 1
    assert target.seen[-1] == "commit"
    assert runner.slot.ready
    assert 8.0 < runner.allowances[1].silence_s(now()) < 9.1  # for all slots


async def test_a_stop_is_heard_while_a_connection_alone_is_to_be_silent() -> None:
    target, sender, runner = await begun(1)
    mute(runner, 1, 30.0)  # said in an answer that nobody has looked at yet
    give_one(runner, 0, 1)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        for _ in range(5):
            await asyncio.sleep(0)
        runner.stopping = True
        runner.wake()
    assert not copying.result()
    assert target.seen == []


async def test_the_silence_of_a_connection_alone_is_waited_for_and_no_longer() -> None:
    _, sender, runner = await begun(1)
    mute(runner, 1, 0.2)
    give_one(runner, 0, 1)
    began = now()
    async with asyncio.timeout(5):
        assert not await sender.transact()
    assert now() - began >= 0.2


async def test_the_silence_of_one_broker_ends_the_transaction_for_the_others_too() -> None:
    target, sender, runner = await begun(2)
    runner.commits = CommitPolicy(shortest_s=60.0, busy_s=60.0)
    for number in range(2):
        for at in (1, 2):
            give_one(runner, number, at)
    target.hold_data = True
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        await until(lambda: len(target.held) == 2, deadline_s=5, what="the first requests")
        quiet(runner, 2, 9.0)
        for reply in target.held:
            reply()
    assert copying.result()
    assert [target.seen.count(f"{DATA}{number}") for number in range(2)] == [1, 1]


async def test_no_more_is_on_its_way_than_a_broker_is_known_to_take() -> None:
    target = Target()
    sender, runner = sender_of(target)
    runner.commits = CommitPolicy(shortest_s=60.0, busy_s=60.0)  # however slow the machine is
    for at in range(6):
        give_one(runner, 0, at)
    others = room(runner) - 3 * runner.slot.partitions[identity(0)].queue[0].batch.size + 1
    runner.allowances[1].sent(others, began := now())
    target.hold_data = True
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        target.held.pop()()
        await until(lambda: target.held, deadline_s=5, what="the next requests")
        await asyncio.sleep(0)
        assert target.seen.count(f"{DATA}0") == 3  # of five that the connection would take
        runner.allowances[1].gone(others, began, now())
        target.hold_data = False
        while target.held:
            target.held.pop(0)()


async def test_of_many_partitions_a_request_takes_what_there_is_room_for() -> None:
    target = Target()
    sender, runner = unproven(target, entry(0), entry(1))
    give_one(runner, 0)
    give_one(runner, 1)
    runner.allowances[1].sent(room(runner) - 1, now())

    assert await sender.transact()
    assert [each for each in target.seen if each.startswith("produce east")] == [
        f"{DATA}0",
        f"{DATA}1",
    ]


async def test_what_is_about_to_be_sent_takes_up_room_until_it_is_given_up() -> None:
    target = Target()
    sender, runner = sender_of(target, version=TransactionVersion.V1)
    give_one(runner, 0)
    runner.coordinator.trouble = FencedError("another one has it")
    before = room(runner)
    with pytest.raises(FencedError):
        await sender.transact()
    assert room(runner) < before
    sender.close()
    assert room(runner) == before


async def test_positions_count_too_and_nothing_counts_twice() -> None:
    target = Target()
    sender, runner = sender_of(target)
    give_one(runner, 0)
    size = runner.slot.partitions[identity(0)].queue[0].batch.size
    before = room(runner)

    assert await sender.transact()
    assert size < before - room(runner) < size + 1_000


async def test_what_lost_its_answer_takes_up_room_no_more() -> None:
    target = Target()
    sender, runner = unproven(target)
    give_one(runner, 0)
    before = room(runner)
    target.hold_data = True

    async def lose() -> None:
        await until(lambda: target.held, deadline_s=5, what="the first request")
        assert room(runner) < before
        runner.lanes[0].lose()

    with pytest.raises(AbortError):
        await asyncio.gather(sender.transact(), lose())
    assert room(runner) == before


async def test_a_slot_without_room_begins_nothing_until_another_one_has_its_answer() -> None:
    target = Target()
    sender, runner = unproven(target)
    give_one(runner, 0)
    allowance, taken = runner.allowances[1], room(runner)
    allowance.sent(taken, began := now())
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        looking = group.create_task(sender.transact())
        for _ in range(5):
            await asyncio.sleep(0)
        allowance.answered(taken, began, now(), 0.0)
    assert not looking.result()
    assert target.seen == []
    assert await sender.transact()
    assert target.seen[-1] == "commit"


async def test_a_transaction_that_finds_no_more_room_ends_with_what_it_has() -> None:
    target = Target()
    sender, runner = unproven(target)
    runner.commits = CommitPolicy(busy_s=60.0)
    for at in range(2):
        give_one(runner, 0, at)
    target.hold_data = True
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        runner.allowances[1].sent(1 << 20, now())
        target.held.pop()()
    assert copying.result()
    assert target.seen.count(f"{DATA}0") == 1
    assert runner.slot.ready


async def test_nothing_is_begun_while_the_broker_of_the_positions_wants_silence() -> None:
    target, sender, runner = await begun(1)
    assert {runner.targets.of(*at).node for at in (POSITIONS, SEGMENTS)} == {1}
    quiet(runner, 1, 0.2)
    until_s = now() + 0.2
    give_one(runner, 0, 1)
    async with asyncio.TaskGroup() as group:
        copying = group.create_task(sender.transact())
        await until(lambda: target.seen, deadline_s=5, what="the first request")
        assert now() >= until_s
    assert copying.result()


async def test_the_others_go_on_while_one_broker_wants_silence() -> None:
    target, sender, runner = await begun(2)
    quiet(runner, 2, 60.0)
    give_one(runner, 0, 1)
    give_one(runner, 1, 1)

    assert await sender.transact()
    assert f"{DATA}1" in target.seen
    assert f"{DATA}0" not in target.seen
    assert target.seen[-1] == "commit"


async def test_where_all_brokers_with_something_to_get_want_silence_none_is_begun() -> None:
    target, sender, runner = await begun(1)
    give_one(runner, 0, 1)
    before = now()
    quiet(runner, 2, 0.4)  # longer than a busy transaction

    assert not await sender.transact()
    assert target.seen == []
    assert now() - before >= 0.4
    assert await sender.transact()


async def test_a_broker_that_has_room_again_within_a_look_gets_its_first_request_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, sender, runner = await begun(2)
    limited, free = runner.allowances[2], Allowance.room
    looks = iter([0, 0, 1, 0])  # a second request is made before the first one is answered

    def room_of(allowance: Allowance, now_s: float) -> int:
        return next(looks, 1) if allowance is limited else free(allowance, now_s)

    monkeypatch.setattr(Allowance, "room", room_of)
    for number in (0, 1):
        partition = runner.slot.partitions[identity(number)]
        give(runner.slot, partition, fetched(*((at, [ALONE]) for at in (1, 2, 3))), end=9)

    while runner.slot.ready:
        await sender.transact()

    assert all(p.committed.next_source == 4 for p in runner.slot.partitions.values())
