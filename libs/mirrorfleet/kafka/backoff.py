"""Waiting between attempts: longer each time, with jitter, never past a deadline."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ports import Dice

FIRST_S: Final = 0.02
LIMIT_S: Final = 1.0


class SystemDice:
    """Jitter from the system; tests pass their own."""

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        return random.uniform(low, high)  # noqa: S311 - jitter, not a secret


class Attempts:
    """The pauses of one call that is tried until its deadline.

    `pause` doubles from `first_s` to `limit_s`, less up to a fifth by jitter.
    """

    def __init__(
        self, what: str, deadline_s: float, dice: Dice, *, first_s: float = FIRST_S
    ) -> None:
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._end = self._loop.time() + deadline_s
        self._dice = dice
        self._next_s = first_s
        self._over: DeadlineError | None = None

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; at least a millisecond, so that a last attempt can fail."""
        return max(self._end - self._loop.time(), 0.001)

    def check(self, where: str) -> None:
        """Raises: DeadlineError when time is up."""
        if self._loop.time() >= self._end:
            text = f"{self._what}: gave up after {self._deadline_s:g} s, {where}."
            self._over = DeadlineError(text)
            raise self._over

    async def pause(self, cause: Exception, *, at_most_s: float = LIMIT_S) -> None:
        """Wait before the next attempt.

        Raises: DeadlineError when it would be after the deadline; `cause` is in its text.
        """
        if cause is self._over:
            raise cause
        pause = min(self._next_s, at_most_s) * self._dice.uniform(0.8, 1.0)
        if self._loop.time() + pause >= self._end:
            raise DeadlineError(
                f"{self._what}: gave up after {self._deadline_s:g} s; last: {cause}"
            ) from cause
        self._next_s = min(self._next_s * 2, LIMIT_S)
        await asyncio.sleep(pause)
