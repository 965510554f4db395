"""A round of requests holds up the loop for a moment only, however many small batches wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from mirrorfleet.copying.schedule import Depth
from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.slots import rounds
from mirrorfleet.slots import sending as sending_module
from mirrorfleet.slots.sending import Sender
from mirrorfleet.wire.codecs import Codec
from tests.faultkit.waiting import until
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import Runner, Target, sender_of

DATA = "produce east.orders-"
BATCHES = 9
Future = asyncio.Future[list[ProduceAck]]


def give_small(runner: Runner, number: int, codec: Codec) -> None:
    """Three batches of two records."""
    batches = [(at, [b"a", b"b"]) for at in (0, 2, 4)]
    partition = runner.slot.partitions[identity(number)]
    give(runner.slot, partition, fetched(*batches, codec=codec), end=6)


def give_large(runner: Runner, end: int = 1_000) -> None:
    """Batches of which none is put together with others; with more at the source: a backlog."""
    batches = [(offset, [ALONE]) for offset in range(BATCHES)]
    give(runner.slot, runner.slot.partitions[identity()], fetched(*batches), end=end)


@asynccontextmanager
async def first_is_sent(sender: Sender, runner: Runner, target: Target) -> AsyncIterator[None]:
    """A transaction whose first request waits for its answer; at the end all are answered."""
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.transact())
        await until(lambda: target.held, deadline_s=5, what="the first request")
        yield
        target.hold_data, runner.stopping = False, True
        for reply in target.held:
            reply()


@pytest.mark.parametrize(
    ("codec", "requests"),
    [(Codec.LZ4, ["0,1", "2,3"]), (Codec.NONE, ["0,1,2,3"])],
    ids=["compressed", "plain"],
)
async def test_a_request_goes_when_as_many_were_opened_as_may_be_in_one_go(
    codec: Codec, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "OPENED_MOST", 28)  # of two partitions
    target = Target()
    sender, runner = sender_of(target, *map(entry, range(4)))
    for number in range(4):
        give_small(runner, number, codec)

    assert await sender.transact()

    data = [each for each in target.seen if each.startswith(DATA)]
    names = [each.removeprefix(DATA).replace("east.orders-", "") for each in data]
    assert names == requests


async def test_others_have_their_turn_after_a_round_that_opened_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "OPENED_MOST", 1)
    target = Target()
    sender, runner = sender_of(target, *map(entry, range(3)))
    for number in range(3):
        give_small(runner, number, Codec.LZ4)
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(sum(each.startswith(DATA) for each in target.seen))
            await asyncio.sleep(0)

    waiting = asyncio.ensure_future(other())
    assert await sender.transact()
    waiting.cancel()

    assert {1, 2, 3} <= set(turns)


@pytest.mark.parametrize(
    ("version", "end", "looks"),
    [
        (TransactionVersion.V2, 1_000, 2),
        (TransactionVersion.V2, BATCHES, BATCHES),
        (TransactionVersion.V1, 1_000, BATCHES),
    ],
    ids=["backlog", "all-at-hand", "told-before"],
)
async def test_a_backlog_fills_the_pipe_without_a_look_for_each_request(
    version: TransactionVersion, end: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target, version=version)
    give_large(runner, end=end)
    seen: list[int] = []
    monkeypatch.setattr(runner.held_back, "look", lambda _may: seen.append(len(target.seen)))

    async with first_is_sent(sender, runner, target):
        target.held.pop()()
        await until(lambda: len(target.held) == BATCHES - 1, deadline_s=5, what="the others")
        assert len(seen) in (looks, looks + 1)  # and one that finds nothing


async def test_what_came_after_its_beginning_is_not_of_a_transaction_without_a_backlog() -> None:
    target = Target()
    sender, runner = sender_of(target)
    partition = runner.slot.partitions[identity()]
    give(runner.slot, partition, fetched((0, [ALONE])), end=2, now=1.0)
    give(runner.slot, partition, fetched((1, [ALONE])), end=2, now=1e9)

    assert await sender.transact()

    assert [each.next_source for (each,) in runner.commits_seen] == [1]


async def test_no_more_is_sent_to_a_connection_that_takes_nothing_now() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    give_large(runner)
    async with first_is_sent(sender, runner, target):
        lane = runner.lanes[0]
        real = lane.send

        def full(entries: Sequence[ProduceEntry], *, timeout_ms: int) -> Future:
            lane.connection.must_wait = True
            return real(entries, timeout_ms=timeout_ms)

        lane.send = full  # type: ignore[method-assign]  # its buffer is full after each request
        target.held.pop()()
        await until(lambda: len(target.held) == BATCHES - 1, deadline_s=5, what="the others")
        sent = [each for each in target.seen if each == "ready" or each.startswith(DATA)]
        assert sent[2:5] == ["ready", f"{DATA}0", "ready"]


async def test_a_pipe_is_filled_as_deep_as_it_may_be() -> None:
    target = Target()
    target.hold_data = True
    sender, runner = sender_of(target)
    runner.depth = Depth(4)
    give_large(runner)
    async with first_is_sent(sender, runner, target):
        target.held.pop()()
        await until(lambda: target.held, deadline_s=5, what="the others")
        assert len(target.held) == 4


async def test_a_backlog_is_not_sent_beyond_what_an_abort_may_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending_module, "LONGEST_BYTES", 2 * len(ALONE) + 1_000)
    sender, runner = sender_of(Target())
    give_large(runner)

    assert await sender.transact()

    assert [each.next_source for (each,) in runner.commits_seen] == [3]
