"""Who is asked to end while it has trouble ends: task groups of CPython 3.11 may forget it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.schedule import Setbacks
from mirrorfleet.core.errors import ConnectionLostError, MirrorfleetError
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots.runner import SlotRunner
from tests.faultkit.waiting import until
from tests.unit.copying.making import slot
from tests.unit.slots.stubs import NoSpare


class Troubled:
    """A slot whose copying failed; one of its tasks takes a while to end."""

    _goes_on_at_once, is_lost = True, False
    stopping, left_in, trouble = False, None, ""

    def __init__(self) -> None:
        self.ending, self.may_end, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.slot, self.spare, self.setbacks, self.clock = (
            slot(),
            NoSpare(),
            Setbacks(),
            SystemClock(),
        )
        self.wedges = SimpleNamespace(forget=lambda: None)
        self.doubts = SimpleNamespace(begin=lambda: None)
        self.targets = SimpleNamespace(ask=lambda: None)
        self.dice = SimpleNamespace(uniform=lambda low, _: low)
        self.state = SlotState.LOST

    def _stop(self) -> None:
        pass

    def move(self, state: SlotState) -> None:
        self.state = state

    def _interrupted(self, error: MirrorfleetError) -> None:
        SlotRunner._interrupted(cast("SlotRunner", self), error)

    def _fields(self, error: BaseException) -> dict[str, object]:
        return {}

    async def _hold(self, _: Stop) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._linger())
                await asyncio.sleep(0)
                raise ConnectionLostError("east")
        except BaseExceptionGroup:
            raise ConnectionLostError("east: the connection was lost.") from None

    async def _linger(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()


async def test_a_slot_that_is_cancelled_while_its_trouble_is_cleared_away_ends() -> None:
    """Else a service that failed would wait for it for ever, and look alive."""
    troubled = Troubled()
    stop = Stop(SystemClock(), 5.0)
    running = asyncio.create_task(SlotRunner.run(cast("SlotRunner", troubled), stop))
    await until(lambda: troubled.ending.is_set() or running.done(), deadline_s=5, what="its end")
    assert not running.done()

    running.cancel()
    troubled.may_end.set()

    ended, _ = await asyncio.wait({running}, timeout=5)
    running.cancel()
    assert ended == {running}
    assert running.cancelled()
