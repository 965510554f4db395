from __future__ import annotations

import asyncio
from contextlib import suppress

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.slots.waits import Bell, reserved
from tests.faultkit.waiting import until


async def test_memory_is_waited_for_and_granted_in_turn() -> None:
    budget = MemoryBudget(10)
    account = budget.account()
    await reserved(account, 10)
    waiting = asyncio.ensure_future(reserved(account, 5))

    assert not waiting.done()
    account.release(10)
    await waiting

    assert budget.used == 5


async def test_a_cancelled_wait_for_memory_takes_none() -> None:
    budget = MemoryBudget(10)
    account = budget.account()
    await reserved(account, 10)
    waiting = asyncio.ensure_future(reserved(account, 5))
    await until(lambda: budget.used == 10, deadline_s=1, what="the wait to begin")
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting

    account.release(10)

    assert budget.used == 0


async def test_a_wait_cancelled_in_the_moment_of_its_grant_gives_the_memory_back() -> None:
    budget = MemoryBudget(10)
    account = budget.account()
    await reserved(account, 10)
    waiting = asyncio.ensure_future(reserved(account, 5))
    await asyncio.wait([waiting], timeout=0)
    account.release(10)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting

    assert budget.used == 0


async def test_a_bell_that_rang_before_is_heard_at_once_and_once() -> None:
    bell = Bell()
    bell.ring()
    began = asyncio.get_running_loop().time()

    await bell.heard(30.0)
    assert asyncio.get_running_loop().time() - began < 1

    await bell.heard(0.05)
    assert asyncio.get_running_loop().time() - began >= 0.05


async def test_everybody_who_waits_hears_the_bell() -> None:
    bell = Bell()
    waiting = [asyncio.ensure_future(bell.heard(30.0)) for _ in range(2)]
    await asyncio.wait(waiting, timeout=0)
    bell.ring()
    bell.ring()

    done, _ = await asyncio.wait(waiting, timeout=1)

    assert len(done) == 2


async def test_a_wait_for_a_bell_that_was_cancelled_leaves_nothing_behind() -> None:
    bell = Bell()
    waiting = asyncio.ensure_future(bell.heard(30.0))
    await asyncio.wait([waiting], timeout=0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    heard = asyncio.ensure_future(bell.heard(30.0))
    await asyncio.wait([heard], timeout=0)

    bell.ring()

    done, _ = await asyncio.wait([heard], timeout=1)
    assert done == {heard}


async def test_hundreds_of_waits_that_are_cancelled_at_once_take_none() -> None:
    """A worker that ends while all its lanes wait for memory."""
    budget = MemoryBudget(100)
    account = budget.account()
    await reserved(account, 80)
    waiting = [asyncio.ensure_future(reserved(budget.account(), 50)) for _ in range(400)]
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()

    account.release(80)
    ended = await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(each) for each in ended} == {asyncio.CancelledError}
    assert budget.used == 0
