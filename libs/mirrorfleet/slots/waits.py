"""Waiting in a task: for an event with a limit, for memory. Cancelling leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrorfleet.copying.budget import MemoryBudget


async def wait_for(event: asyncio.Event, at_most_s: float) -> None:
    """Until `event` is set or the time is over; the event is cleared."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()
    event.clear()


async def reserved(budget: MemoryBudget, size: int) -> None:
    """Until `size` bytes of the budget are ours; a cancelled wait takes none."""
    granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grant() -> None:
        if granted.cancelled():
            budget.release(size)
        else:
            granted.set_result(None)

    budget.reserve(size, grant)
    try:
        await granted
    except asyncio.CancelledError:
        if not budget.withdraw(grant) and granted.done() and not granted.cancelled():
            budget.release(size)
        raise
