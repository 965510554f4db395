"""What Python 3.11.3 mended in asyncio, for the ones before: Debian 12 has 3.11.2."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MENDED_IN: Final = (3, 11, 3)

_as_it_is = asyncio.timeout


@asynccontextmanager
async def timeout(delay: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Do as `asyncio.timeout`, also while a task that was cancelled says goodbye.

    There an older one raises CancelledError where time is over (gh-102780): nobody would hear that
    a member leaves, or that its coordinator did not answer.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    scope = _as_it_is(delay)
    try:
        async with scope:
            yield scope
    except asyncio.CancelledError as error:
        if task is not None and scope.expired() and task.cancelling() <= before:
            raise TimeoutError from error
        raise


def mend() -> None:
    """Put it in the place of one that needs it; nothing on a newer Python."""
    if sys.version_info[:3] < MENDED_IN:
        asyncio.timeout = timeout  # type: ignore[assignment]  # it is entered and nothing else
