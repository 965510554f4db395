"""However data comes and answers are late, a transaction is the same: only its rhythm differs."""

from __future__ import annotations

import asyncio
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faultkit.waiting import until
from tests.unit.copying.making import BIG, entry, fetched, give, identity
from tests.unit.slots.stubs import Runner, Target, sender_of

DATA = ("produce east.", "ack east.")
CONTROL = ("produce positions", "ack positions")


async def test_what_comes_while_a_trickle_is_sent_waits_for_the_next_transaction() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    give(runner.slot, partition, fetched((0, [BIG])), end=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        later = asyncio.get_running_loop().time()
        give(runner.slot, partition, fetched((1, [BIG])), end=2, now=later)
        target.held.pop()()

    assert target.seen.count("produce east.orders-0") == 1
    assert target.seen[-1] == "commit"
    assert runner.slot.ready


async def test_what_comes_while_a_backlog_is_sent_goes_into_the_open_transaction() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    give(runner.slot, partition, fetched((0, [BIG])), end=3)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        later = asyncio.get_running_loop().time()
        give(runner.slot, partition, fetched((1, [BIG])), end=3, now=later)
        target.hold_data = False
        target.held.pop()()

    assert target.seen.count("produce east.orders-0") == 2
    assert target.seen.count("commit") == 1


async def test_a_trickle_is_gathered_before_a_transaction_is_opened() -> None:
    target = Target()
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    give(runner.slot, partition, fetched((0, [BIG])), end=1)
    before = asyncio.get_running_loop().time()
    await sender.transact()
    runner.markers.committed(0, 58)  # 60 markers: 30 ms of the budget, from beginning to beginning
    give(runner.slot, partition, fetched((1, [BIG])), end=2)
    await sender.transact()

    assert asyncio.get_running_loop().time() - before >= 0.03


arrivals = st.lists(
    st.tuples(
        st.integers(0, 1),  # partition
        st.integers(1, 3),  # batches of an answer
        st.integers(0, 2),  # batches that the source still has: a backlog
        st.integers(0, 3),  # turns of the loop until the next answer
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(arrivals)
def test_each_record_is_committed_once_in_order_after_all_its_answers(
    arrived: list[tuple[int, int, int, int]],
) -> None:
    asyncio.run(_copied(arrived))


async def _copied(arrived: list[tuple[int, int, int, int]]) -> None:
    target = Target()
    sender, runner = sender_of(target, entry(0), entry(1))
    sent = {0: 0, 1: 0}
    loop = asyncio.get_running_loop()

    async def feed() -> None:
        for number, batches, more, turns in arrived:
            first = sent[number]
            sent[number] += batches
            frame = fetched(*((first + n, [BIG]) for n in range(batches)))
            partition = runner.slot.partitions[identity(number)]
            give(runner.slot, partition, frame, end=sent[number] + more, now=loop.time())
            runner.wake()
            for _ in range(turns):
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        feeding = group.create_task(feed())
        while not feeding.done() or runner.slot.ready:
            await sender.transact()
            await asyncio.sleep(0)
    _check(target, runner, sent)


def _check(target: Target, runner: Runner, sent: dict[int, int]) -> None:
    committed = {
        position.identity.partition: position
        for positions in runner.commits_seen
        for position in positions
    }
    for number, records in sent.items():
        if records:
            assert committed[number].next_source == records
            assert committed[number].next_target == records
    waiting = 0
    for line in target.seen:
        waiting += line.startswith("produce east.") - line.startswith("ack east.")
        assert not (waiting and line.startswith((*CONTROL, "commit")))
    kinds = [next(k for k in ("east.", "positions", "commit") if k in line) for line in target.seen]
    assert [kind for kind, _ in groupby(kinds)] == ["east.", "positions", "commit"] * len(
        runner.commits_seen
    )


async def test_a_request_of_few_partitions_carries_larger_batches() -> None:
    requests = []
    for partitions in range(1, 5):
        target = Target()
        sender, runner = sender_of(target, *map(entry, range(partitions)))
        for number in range(partitions):
            frame = fetched(*((offset, [b"x" * 60_000]) for offset in range(3)))
            give(runner.slot, runner.slot.partitions[identity(number)], frame, end=3)
        assert await sender.transact()
        requests.append(sum(each.startswith("produce east.orders") for each in target.seen))

    assert requests == [1, 1, 2, 3]
