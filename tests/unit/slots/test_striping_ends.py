"""What a striped lane does where the source ends before where it was thought to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.budget import FrameLease
from mirrorfleet.copying.partition import Pace
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.fetcher import Fetched
from mirrorfleet.slots.striping import FRUITLESS
from tests.faultkit.waiting import until
from tests.unit.slots.striped import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.copying.stripes import Piece


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def fruitless(world: World, throttle_ms: int = 0) -> Callable[..., Awaitable[Fetched]]:
    """A source that has nothing there: it takes its time, and answers nothing."""

    async def fetch(**_: int) -> Fetched:
        await asyncio.sleep(0)
        world.asked.append(0)
        return Fetched(bytearray(), [world.part(bytearray(), [])], throttle_ms)

    return fetch


async def test_a_piece_whose_end_is_not_there_any_more_is_given_up_and_the_true_end_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source lost its tail, or compacted it: the lane would wait for ever, and serve nobody."""
    monkeypatch.setattr(world, "fetch", fruitless(world))
    (piece,) = world.pieces(1, 1)
    async with asyncio.timeout(5):
        await world.fetch_piece(piece)

    partition = world.partition
    assert (partition.pace, partition.source.last_stable) == (Pace.LIVE, -1)
    assert (len(world.asked), world.rerouted, world.budget.used) == (FRUITLESS, 1, 0)


async def test_a_broker_that_asks_to_wait_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as throttled:
        throttled.setattr(world, "fetch", fruitless(world, throttle_ms=100))
        (piece,) = world.pieces(1, 1)
        fetching = asyncio.create_task(world.fetch_piece(piece))
        await until(lambda: len(world.asked) > 2 * FRUITLESS, deadline_s=5, what="many answers")
    await asyncio.wait_for(fetching, 5)

    assert (piece.whole, world.rerouted) == (True, 0)


async def refuse(world: World, piece: Piece, error: ErrorCode) -> None:
    part = world.part(bytearray(), [])._replace(error=error)
    account = world.budget.account()
    await world.lane._arrived(piece, Fetched(bytearray(), [part], 0), FrameLease(account, 0))


async def test_a_refusal_of_what_is_not_in_turn_is_no_word_on_our_position(world: World) -> None:
    """The source was cut behind it: what is in turn is there, and is not thrown away for ever."""
    _, second = world.pieces(2, 1)
    await refuse(world, second, ErrorCode.OFFSET_OUT_OF_RANGE)

    assert world.examined == []
    assert (world.partition.pace, world.partition.source.last_stable) == (Pace.LIVE, -1)
    assert (world.partition.held_until, world.rerouted) == (0.0, 1)


async def test_what_is_before_a_log_that_cannot_be_read_is_delivered_and_then_that_is_judged(
    world: World,
) -> None:
    """A segment of a tiered log is gone, far ahead of the piece in turn."""
    partition, (first, second, third, fourth) = world.partition, world.pieces(4, 1)
    await refuse(world, third, ErrorCode.UNKNOWN_SERVER_ERROR)

    dropped = [each.dropped for each in (first, second, third, fourth)]
    assert (dropped, world.lane._next()) == ([False, False, True, True], None)
    partition.held_until = 0.0  # a while later
    anew = world.lane._next()
    assert anew is not None
    await world.fetch_piece(second)
    await world.fetch_piece(first)
    assert (anew.first, partition.walked_to, partition.unreadable_since) == (2, 2, None)

    before = world.runner.clock.monotonic()
    await refuse(world, anew, ErrorCode.UNKNOWN_SERVER_ERROR)
    since = partition.unreadable_since
    assert since is not None
    assert since >= before
    assert anew.dropped
