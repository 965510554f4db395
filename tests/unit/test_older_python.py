"""A deadline counts as one also for a task that was cancelled and says goodbye."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from mirrorfleet import older_python

NEVER_S = 60.0


async def said_goodbye(within_s: float, cancels: int = 1) -> list[str]:
    """What a task meets whose goodbye is not answered, cancelled once or in its goodbye again."""
    met: list[str] = []
    waits = asyncio.Queue[None]()

    async def leave() -> None:
        try:
            await never(waits)
        finally:
            try:
                async with older_python.timeout(within_s):
                    await never(waits)
            except (TimeoutError, asyncio.CancelledError) as error:
                met.append(type(error).__name__)

    running = asyncio.create_task(leave())
    for _ in range(cancels):
        await waits.get()
        running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return met


async def never(waits: asyncio.Queue[None]) -> None:
    """Tell that it waits, and wait for nothing."""
    waits.put_nowait(None)
    await asyncio.Event().wait()


async def test_time_that_is_over_is_told_as_such_after_a_cancel() -> None:
    assert await said_goodbye(0.01) == ["TimeoutError"]


async def test_another_cancel_is_one() -> None:
    assert await said_goodbye(NEVER_S, cancels=2) == ["CancelledError"]


async def test_it_can_be_asked_and_set_anew() -> None:
    async with older_python.timeout(NEVER_S) as scope:
        scope.reschedule(None)
    assert not scope.expired()
    with pytest.raises(TimeoutError):
        async with older_python.timeout(0.01) as scope:
            await asyncio.Event().wait()
    assert scope.expired()


@pytest.mark.parametrize(("version", "is_mended"), [((3, 11, 2), True), ((3, 11, 3), False)])
def test_only_a_python_that_needs_it_is_mended(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], *, is_mended: bool
) -> None:
    as_it_is = object()
    monkeypatch.setattr(asyncio, "timeout", as_it_is)
    monkeypatch.setattr("sys.version_info", version)
    older_python.mend()

    now: object = asyncio.timeout
    assert now is (older_python.timeout if is_mended else as_it_is)
