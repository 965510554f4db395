"""What is asked before a partition is left behind, when, and what is got ready meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.slots import endings, quarantine
from mirrorfleet.slots.in_sync import ASK_S
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.quarantine import WedgedError
from tests.unit.slots.test_quarantine import ack
from tests.unit.slots.wedged import CONTROL, SICK, WELL, World

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.inspection import TransactionDescription


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.takes_time = True
    return made


async def test_what_else_must_be_known_is_asked_beside_the_second_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbours stand for each round trip."""
    asked, described = asyncio.Event(), endings.described

    async def looked(*arguments: object) -> TransactionDescription | None:
        if world.asked == 1:
            async with asyncio.timeout(5):
                await asked.wait()
        return await described(*arguments)  # type: ignore[arg-type]  # handed on as they are

    async def confirmed() -> bool:
        asked.set()
        return True

    monkeypatch.setattr(endings, "described", looked)
    world.runner.spare.is_taken, world.runner.confirm = True, confirmed
    world.looks = [("PrepareAbort", (SICK,))] * 2

    with pytest.raises(WedgedError):
        await world.wedges.check()


async def test_what_is_not_wanted_any_more_when_nothing_is_sick_is_not_waited_for(
    world: World,
) -> None:
    ended: list[str] = []

    async def confirmed() -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return True

    world.runner.spare.is_taken, world.runner.confirm = True, confirmed
    world.in_sync, world.looks = (1, 2, 3), [("PrepareAbort", (SICK,))] * 2

    async with asyncio.timeout(5):
        await world.wedges.check()

    assert (world.wedges.left_behind, ended) == (frozenset(), ["cancelled"])


async def test_brokers_are_reached_beside_a_look_now_and_then_and_kept_if_it_is_left(
    world: World,
) -> None:
    busy, done = [ack(ErrorCode.CONCURRENT_TRANSACTIONS)], world.runner.spare.done
    slow, well = ("PrepareCommit", (WELL,)), frozenset({WELL})
    world.well, world.looks = well, [slow] * 6
    await world.wedges.refused(busy, 0.5)
    assert done == ["reach", "rest"]
    await world.wedges.refused(busy, 0.8)  # two looks are two seconds
    assert done == ["reach", "rest"]
    world.now += quarantine.REACH_S
    await world.wedges.refused(busy, 1.1)
    assert done == ["reach", "rest"] * 2

    world.now += quarantine.REACH_S
    world.looks = [("PrepareCommit", (SICK,))] * 2
    with pytest.raises(WedgedError):
        await world.wedges.refused(busy, 1.4)
    assert done == [*["reach", "rest"] * 2, "reach"]


async def test_a_suspect_that_the_second_look_finds_alone_is_blamed_by_itself(world: World) -> None:
    """Nobody may know how many replicas it needs."""
    world.least = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    world.wedges.suspect([SICK])
    world.looks = [("PrepareAbort", (SICK, WELL)), ("PrepareAbort", (SICK,))]

    with pytest.raises(WedgedError):
        await world.wedges.after(AbortError("too few"))

    assert world.wedges.left_behind == {SICK}


@pytest.mark.parametrize(("late_s", "left"), [(0.0, {SICK}), (ASK_S, set())])
async def test_what_the_group_said_too_long_ago_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, late_s: float, left: set[TopicPartition]
) -> None:
    """Whoever slept meanwhile may be no member any more."""
    described = endings.described

    async def looked(*arguments: object) -> TransactionDescription | None:
        found = await described(*arguments)  # type: ignore[arg-type]  # handed on as they are
        if world.asked == 2:
            await asyncio.sleep(0)  # the group has answered
            world.now += late_s + 0.5
            world.is_member = not late_s
        return found

    monkeypatch.setattr(endings, "described", looked)
    world.runner.spare.is_taken = True
    world.looks = [("PrepareAbort", (SICK,))] * 2

    with suppress(WedgedError):
        await world.wedges.check()

    assert world.wedges.left_behind == left


async def test_positions_that_were_open_a_moment_ago_are_asked_about_again(world: World) -> None:
    world.runner.spare.is_taken = True
    world.looks, world.open_at = [("PrepareAbort", (SICK,))] * 2, frozenset({CONTROL})
    confirm = world.runner.confirm

    async def confirmed() -> bool:
        world.open_at = frozenset()  # their marker was on its way
        return bool(await confirm())

    world.runner.confirm = confirmed
    with pytest.raises(WedgedError):
        await world.wedges.check()


@pytest.mark.parametrize(
    ("version", "done"),
    [(TransactionVersion.V2, ["reach"]), (TransactionVersion.V1, ["reach", "rest"])],
)
async def test_connections_are_kept_for_who_looks_again_when_it_is_aborted(
    world: World, version: TransactionVersion, done: list[str]
) -> None:
    world.runner.transaction_version = version
    world.looks = [("Ongoing", (SICK,))]

    with pytest.raises(AbortError, match="too few"):
        await world.wedges.refused([ack(ErrorCode.NOT_ENOUGH_REPLICAS)], 0.5)

    assert world.runner.spare.done == done


async def test_of_a_target_that_is_only_slow_less_is_asked(world: World) -> None:
    busy, confirm = [ack(ErrorCode.CONCURRENT_TRANSACTIONS)], AsyncMock(return_value=True)
    world.runner.spare.is_taken, world.runner.confirm = True, confirm
    world.well, world.looks = frozenset({WELL}), [("PrepareCommit", (WELL,))] * 4
    await world.wedges.refused(busy, 0.5)
    await world.wedges.refused(busy, 0.8)
    assert confirm.await_count == 1

    world.looks = [("PrepareCommit", (SICK,))] * 2
    with pytest.raises(WedgedError):
        await world.wedges.refused(busy, 1.1)
    assert confirm.await_count == 2
