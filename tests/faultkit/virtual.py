"""A loop whose time passes only while everybody waits, and then at once: hours in a moment."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class _Virtual(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return self.now


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop: _Virtual) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for ever"
        self._loop.now += timeout
        return super().select(0)


def in_virtual_time(work: Coroutine[object, object, None]) -> None:
    """Run it to its end; nothing outside the loop may be waited for."""
    with asyncio.Runner(loop_factory=_Virtual) as runner:
        runner.run(work)
