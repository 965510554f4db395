"""Waiting for a thing to become true, under a deadline, with an error that says what was awaited.

The only way for a test to wait. `until` is for coroutines and `wait_until` its sync twin; both
poll `predicate` and give back its first truthy value. A predicate that may fail while a thing is
still starting lists the errors it may raise in `ignoring`; every other error ends the wait.
Holding a fault for a time is `tests/faultkit/hold.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, TypeVar, overload

from tests.faultkit.hold import hold, hold_sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

FIRST_PAUSE_S = 0.005
"""Pauses grow by half from this one, so that a quick thing is seen at once."""

MAX_PAUSE_S = 0.1
"""Longest pause between two looks: ten a second cost no core worth naming."""


class NotInTimeError(AssertionError):
    """Raised when the deadline passes; says what was awaited, for how long, and what was last seen.

    An AssertionError, so that pytest reports a failure of the test and not an error in it.
    """

    def __init__(self, what: str, deadline_s: float, last: object) -> None:
        super().__init__(f"waited {deadline_s:g} s for {what}; last seen: {last!r}")
        self.what = what
        self.last = last


@overload
async def until(
    predicate: Callable[[], Awaitable[T]],
    *,
    deadline_s: float,
    what: str,
    ignoring: tuple[type[Exception], ...] = (),
) -> T: ...


@overload
async def until(
    predicate: Callable[[], T],
    *,
    deadline_s: float,
    what: str,
    ignoring: tuple[type[Exception], ...] = (),
) -> T: ...


async def until(
    predicate: Callable[[], object],
    *,
    deadline_s: float,
    what: str,
    ignoring: tuple[type[Exception], ...] = (),
) -> object:
    """Wait until `predicate()` (a function or a coroutine function) is truthy; return its value.

    Raises:
        NotInTimeError: after `deadline_s` seconds, also when a single look never returned.
    """
    last: object = "nothing yet"
    try:
        async with asyncio.timeout(deadline_s) as scope:
            pause = FIRST_PAUSE_S
            while True:
                try:
                    seen = predicate()
                    value: object = await seen if inspect.isawaitable(seen) else seen
                    if value:
                        return value
                    last = value
                except ignoring as error:
                    last = error
                await hold(pause, reason="between two looks")
                pause = min(pause * 1.5, MAX_PAUSE_S)
    except TimeoutError:
        if not scope.expired():  # the predicate's own
            raise
        raise NotInTimeError(what, deadline_s, last) from None


def wait_until(
    predicate: Callable[[], T],
    *,
    deadline_s: float,
    what: str,
    ignoring: tuple[type[Exception], ...] = (),
    every_s: float = MAX_PAUSE_S,
) -> T:
    """Wait until `predicate()` is truthy and return its value; the last look is at the deadline.

    `every_s`: the longest pause, where a look itself takes time.

    Raises:
        NotInTimeError: after `deadline_s` seconds.
    """
    end = time.monotonic() + deadline_s
    pause = FIRST_PAUSE_S
    while True:
        last: object
        try:
            value = predicate()
            if value:
                return value
            last = value
        except ignoring as error:
            last = error
        if time.monotonic() >= end:
            raise NotInTimeError(what, deadline_s, last)
        hold_sync(min(pause, max(end - time.monotonic(), 0.0)), reason="between two looks")
        pause = min(pause * 1.5, every_s)
