"""One hold of a slot: how it begins, what is looked at in it, and what it forgets."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots import taking
from mirrorfleet.slots.outgoing import AbortError
from tests.unit.copying.making import partition_of, slot
from tests.unit.slots.test_runner import DEADLINE_S, Member, Pauses

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender


async def test_a_slot_that_is_not_ours_any_more_is_not_taken_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its heir has taken it by then, and would be fenced."""
    member, stop = Member(), Stop(SystemClock(), DEADLINE_S)
    taking_it = asyncio.Event()

    async def take(runner: SlotRunner) -> Sender:
        runner.move(SlotState.FENCING)
        taking_it.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(taking, "take", take)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        group.create_task(member.runner.run(stop))
        await taking_it.wait()
        stop.set()
    assert member.runner.state is SlotState.RELEASED


@pytest.mark.parametrize("fails", [True, False])
async def test_what_the_catalog_says_while_new_partitions_are_begun_is_looked_at_after_that(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    runner, looks = Member().runner, []

    async def follow(*_: object) -> None:
        looks.append(True)
        if len(looks) == 1 and fails:
            raise AbortError("the ledger has no leader")
        if len(looks) == 1:
            runner.look_at_entries()

    monkeypatch.setattr(taking, "follow_entries", follow)
    runner.look_at_entries()
    for _ in range(3):
        with suppress(AbortError):
            await runner._admit_new(cast("Sender", None))

    assert len(looks) == 2


async def test_of_an_earlier_hold_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another owner went on since: past a fault, and past the end of a topic that is gone now."""
    member, stop = Member(), Pauses(1)
    monkeypatch.setattr(taking, "take", member.take)
    before = partition_of(slot())
    kept = (member.runner.slot.left, member.runner.slot.remembered)
    for each in kept:
        each[before.identity] = before
    member.runner.slot.ends[before.identity] = 70

    await member.runner.run(stop)

    assert [*kept, member.runner.slot.ends] == [{}, {}, {}]
