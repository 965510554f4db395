"""The loop of a slot: how it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots import entries
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import slot

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.slots.sending import Sender

DEADLINE_S = 5.0


class Slot:
    """A slot whose transactions are all aborted, and that is asked to stop."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.aborted = 0
        self.stopping = False
        self.clock = SystemClock()
        self.dice = SimpleNamespace(uniform=lambda low, high: low)
        self.doubts = SimpleNamespace(settle=self._settle)

    async def _settle(self, sender: object) -> bool:
        del sender
        await asyncio.sleep(0)
        return not self.stopping

    async def _admit_new(self, sender: object) -> None:
        pass

    async def transact(self) -> bool:
        self.stopping = True
        self.stop.set()
        raise AbortError("an earlier transaction may be open in the slot's positions")

    async def _aborted(self, sender: object, error: AbortError) -> None:
        del sender, error
        self.aborted += 1


async def test_a_slot_that_stops_leaves_what_it_had_to_take_back_to_the_next_owner() -> None:
    """Tried again it would be aborted for as long as its positions have no leader."""
    slot = Slot(Stop(SystemClock(), DEADLINE_S))

    async with asyncio.timeout(DEADLINE_S):
        await SlotRunner._copy(cast("SlotRunner", slot), cast("Sender", slot), slot.stop)

    assert slot.aborted == 1


async def test_a_slot_that_comes_back_forgets_what_others_may_have_copied_since() -> None:
    made = slot()
    runner = SimpleNamespace(
        slot=made,
        state=SlotState.LOST,
        is_lost=False,
        wedges=SimpleNamespace(forget=lambda: None),
        ended=asyncio.Event(),
        _stop=lambda: None,
        moves=[],
    )
    runner.move = runner.moves.append
    stop = Stop(SystemClock(), DEADLINE_S)
    stop.set()

    await SlotRunner.run(cast("SlotRunner", runner), stop)

    assert (made.partitions, runner.moves) == ({}, [SlotState.WAITING, SlotState.RELEASED])


async def test_a_slot_that_is_handed_over_ends_what_an_abort_left_open_before_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    async def settle(sender: object) -> bool:
        done.append("settled")
        return True

    async def commit_control(written: object) -> None:
        done.append("released")

    monkeypatch.setattr(entries, "release_entry", lambda *_: "released")
    giving = SimpleNamespace(left_in=object(), doubts=SimpleNamespace(settle=settle))
    sender = SimpleNamespace(commit_control=commit_control)

    await SlotRunner._release(cast("SlotRunner", giving), cast("Sender", sender))

    assert done == ["settled", "released"]
