"""A leader that does not answer costs its own partitions, and not the copying of the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import AuthenticationError, DeadlineError, MirrorfleetError
from mirrorfleet.slots.silence import LOOK_S, REFUSED_S
from tests.faultkit.virtual import in_virtual_time
from tests.unit.slots.settled import COPY, World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LASTS_S = 20.0
PAUSE_S = 0.1
"""Between two transactions."""


class Copying:
    """A slot with two brokers; the one that leads COPY can be out of reach."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tasks: asyncio.TaskGroup) -> None:
        self.world = World(monkeypatch)
        vars(self.world.runner)["tasks"] = tasks
        self.world.unreachable, self.world.silent_s = {COPY}, LOOK_S
        self.world.doubts.renew()
        self.settling_s, self.commits = 0.0, 0

    async def copy_once(self) -> None:
        before = asyncio.get_running_loop().time()
        await self.world.doubts.settle(self.world.sender)
        self.settling_s += asyncio.get_running_loop().time() - before
        self.commits += await self.world.copied(1)
        await asyncio.sleep(PAUSE_S)

    async def copy(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await self.copy_once()


def run(
    drill: Callable[[Copying], Coroutine[object, object, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In virtual time, on a slot whose one broker is out of reach at first."""

    async def running() -> None:
        async with asyncio.TaskGroup() as tasks:
            await drill(Copying(monkeypatch, tasks))

    in_virtual_time(running())


@pytest.mark.parametrize("error", [DeadlineError("gave up"), AuthenticationError("refused")])
def test_partitions_beside_a_leader_out_of_reach_are_copied_as_ever(
    error: MirrorfleetError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drill(copying: Copying) -> None:
        copying.world.away = error
        await copying.copy(LASTS_S)
        assert copying.settling_s < LASTS_S / 4
        assert copying.commits > LASTS_S / PAUSE_S / 2
        assert copying.world.doubts.doubted == {COPY}

        copying.world.unreachable = set()
        await copying.copy(2 * LOOK_S if isinstance(error, DeadlineError) else REFUSED_S)
        assert copying.world.doubts.doubted == set()

    run(drill, monkeypatch)


def test_another_leader_of_a_partition_in_doubt_is_asked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def drill(copying: Copying) -> None:
        await copying.copy(LASTS_S)

        world = copying.world
        world.unreachable, world.epoch = set(), 2
        world.renewed()
        before = copying.settling_s
        await copying.copy_once()
        assert (world.doubts.doubted, copying.settling_s) == (set(), before)

    run(drill, monkeypatch)


def test_a_slot_that_is_taken_again_asks_on_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def drill(copying: Copying) -> None:
        await copying.copy(LOOK_S)
        (asking,) = (task for task in asyncio.all_tasks() if task.get_name() == "silent:0")
        asking.cancel()  # as all that was begun for the slot is, when it is taken again
        spent = copying.settling_s

        copying.world.doubts.renew()
        await copying.copy(LOOK_S)
        assert copying.settling_s == spent
        copying.world.unreachable = set()
        await copying.copy(2 * LOOK_S)
        assert copying.world.doubts.doubted == set()

    run(drill, monkeypatch)
