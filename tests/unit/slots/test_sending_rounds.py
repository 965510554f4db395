"""A round of requests holds up the loop for a moment only, however many small batches wait."""

from __future__ import annotations

import asyncio

import pytest

from mirrorfleet.slots import sending
from mirrorfleet.wire.codecs import Codec
from tests.unit.copying.making import entry, fetched, give, identity
from tests.unit.slots.stubs import Runner, Target, sender_of

DATA = "produce east.orders-"


def give_small(runner: Runner, number: int, codec: Codec) -> None:
    """Three batches of two records."""
    batches = [(at, [b"a", b"b"]) for at in (0, 2, 4)]
    partition = runner.slot.partitions[identity(number)]
    give(runner.slot, partition, fetched(*batches, codec=codec), end=6)


@pytest.mark.parametrize(
    ("codec", "requests"),
    [(Codec.LZ4, ["0,1", "2,3"]), (Codec.NONE, ["0,1,2,3"])],
    ids=["compressed", "plain"],
)
async def test_a_request_goes_when_as_many_were_opened_as_may_be_in_one_go(
    codec: Codec, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "OPENED_MOST", 28)  # of two partitions
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
    monkeypatch.setattr(sending, "OPENED_MOST", 1)
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
