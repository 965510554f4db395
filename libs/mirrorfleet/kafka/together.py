"""Several requests side by side that fail as one does: with an error of ours, not a group of them.

By `gather` and not by a task group: that of CPython 3.11 forgets that its caller was cancelled when
one of its tasks has failed already, and who was asked to end would go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from mirrorfleet.core.errors import MirrorfleetError, deciding

T = TypeVar("T")
U = TypeVar("U")


async def all_of(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Do all of it, each within its own deadline; cancelled, all of it is.

    Raises: of several errors the one that decides; whatever is not an error of ours before that.
    """
    found = await asyncio.gather(*work, return_exceptions=True)
    _raise_of([error for error in found if isinstance(error, BaseException)])


def _raise_of(errors: Sequence[BaseException]) -> None:
    ours = [error for error in errors if isinstance(error, MirrorfleetError)]
    if len(ours) < len(errors):
        raise next(error for error in errors if not isinstance(error, MirrorfleetError))
    if ours:
        raise deciding(BaseExceptionGroup("requests side by side", ours))


async def those_of(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """What those give that can. Raises: as `all_of`, when none can."""
    found = await asyncio.gather(*work, return_exceptions=True)
    given = [each for each in found if not isinstance(each, BaseException)]
    errors = [each for each in found if isinstance(each, BaseException)]
    _raise_of([each for each in errors if not given or not isinstance(each, MirrorfleetError)])
    return given


async def both_of(
    one: Coroutine[object, object, T], other: Coroutine[object, object, U]
) -> tuple[T, U]:
    """What two of them give. Raises: as `all_of`."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    found = await asyncio.gather(first, second, return_exceptions=True)
    _raise_of([each for each in found if isinstance(each, BaseException)])
    return first.result(), second.result()


async def both_or_neither(
    one: Coroutine[object, object, T], other: Coroutine[object, object, U]
) -> tuple[T, U]:
    """What two of them give, of which one alone is of no use: when it fails the other is cancelled.

    Raises: as `all_of`.
    """
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    try:
        await asyncio.wait((first, second), return_when=asyncio.FIRST_EXCEPTION)
    finally:
        second.cancel()
        found = [*await _cancelled(first), *await _cancelled(second)]
    _raise_of([each for each in found if not isinstance(each, asyncio.CancelledError)])
    return first.result(), second.result()


async def helped(work: Coroutine[object, object, T], aid: Coroutine[object, object, None]) -> T:
    """What `work` gives; `aid` only makes it faster, fails with no error of ours, and ends with it.

    Raises: as `work`, and whatever is not an error of ours.
    """
    aiding = asyncio.ensure_future(aid)
    try:
        return await work
    finally:
        found = await _cancelled(aiding)
        _raise_of([each for each in found if not isinstance(each, asyncio.CancelledError)])


@asynccontextmanager
async def begun(work: Coroutine[object, object, T]) -> AsyncIterator[asyncio.Future[T]]:
    """Do it beside what the block does, which awaits it if it is wanted; else it ends with that."""
    beside = asyncio.ensure_future(work)
    try:
        yield beside
    finally:
        await _cancelled(beside)


def unless_cancelled() -> None:
    """Behind a task group that failed. Raises: CancelledError: it was cancelled, and has forgotten.

    Only where its block ends by an error: what the group and time-outs asked for is taken back
    then. One whose block was at its end before leaves the caller cancelled (CPython 3.11).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _cancelled(work: asyncio.Future[T]) -> list[BaseException]:
    """End it, if it is not at its end; what it failed with."""
    work.cancel()
    found = await asyncio.gather(work, return_exceptions=True)
    return [each for each in found if isinstance(each, BaseException)]
