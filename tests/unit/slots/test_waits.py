from __future__ import annotations

import asyncio
from contextlib import suppress

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.slots.waits import reserved, wait_for
from tests.faultkit.waiting import until


async def test_memory_is_waited_for_and_granted_in_turn() -> None:
    budget = MemoryBudget(10)
    await reserved(budget, 10)
    waiting = asyncio.ensure_future(reserved(budget, 5))

    assert not waiting.done()
    budget.release(10)
    await waiting

    assert budget.used == 5


async def test_a_cancelled_wait_for_memory_takes_none() -> None:
    budget = MemoryBudget(10)
    await reserved(budget, 10)
    waiting = asyncio.ensure_future(reserved(budget, 5))
    await until(lambda: budget.used == 10, deadline_s=1, what="the wait to begin")
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting

    budget.release(10)

    assert budget.used == 0


async def test_a_wait_cancelled_in_the_moment_of_its_grant_gives_the_memory_back() -> None:
    budget = MemoryBudget(10)
    await reserved(budget, 10)
    waiting = asyncio.ensure_future(reserved(budget, 5))
    await asyncio.wait([waiting], timeout=0)
    budget.release(10)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting

    assert budget.used == 0


async def test_an_event_is_cleared_after_it_was_waited_for() -> None:
    event = asyncio.Event()
    event.set()

    await wait_for(event, 1.0)

    assert not event.is_set()


async def test_waiting_for_an_event_ends_in_time() -> None:
    event = asyncio.Event()

    await wait_for(event, 0.001)

    assert not event.is_set()
