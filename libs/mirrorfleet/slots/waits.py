"""Waiting in a task: for a bell with a limit, for memory, for others to have a turn.

Cancelling leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mirrorfleet.copying.budget import Account
    from mirrorfleet.core.ports import Clock

ANSWER_S: Final = 10.0
"""For an answer of the source to begin, beyond the time that it may hold it back; while bytes come
it is extended. One that vanished without a word is not waited for longer."""
TURN_S: Final = 0.01
"""To walk what must be encoded anew may take seconds for all that came at once, and a member that
sends no heartbeat for so long is put out of its group."""


class Bell:
    """Rung by anyone, heard by whoever waits, or by the next one who does.

    An `asyncio.Event` under `asyncio.timeout` says the same at three times the price, and a slot
    waits for each answer of the target.
    """

    __slots__ = ("_rung", "_waiters")

    def __init__(self) -> None:
        self._rung = False
        self._waiters: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake all who wait; with nobody there the next wait ends at once."""
        self._rung = True
        for waiter in self._waiters:
            _end(waiter)

    async def heard(self, at_most_s: float) -> None:
        """Until it rings or the time is over; it is silent then."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append(waiter)
            timer = loop.call_later(at_most_s, _end, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.remove(waiter)
        self._rung = False


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Turn:
    """How long one task has had the loop."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Clock) -> None:
        self._clock, self._since = clock, clock.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether others are to go on first."""
        return self._clock.monotonic() - self._since > TURN_S

    async def passed_on(self) -> None:
        """Let them; anything may have changed afterwards."""
        await asyncio.sleep(0)
        self._since = self._clock.monotonic()


async def reserved(account: Account, size: int) -> bool:
    """Until `size` bytes of the budget are the account's: whether that was a wait.

    A cancelled wait takes none.
    """
    granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grant() -> None:
        if granted.cancelled():
            account.release(size)
        else:
            granted.set_result(None)

    account.reserve(size, grant)
    waited = not granted.done()
    try:
        await granted
    except asyncio.CancelledError:
        is_ours = granted.done() and not granted.cancelled()
        if not account.budget.withdraw(grant) and is_ours:
            account.release(size)
        raise
    return waited
