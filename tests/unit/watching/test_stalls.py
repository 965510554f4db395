"""A stream of progress that stands still without an error."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import cast

import pytest

from mirrorfleet.core.errors import ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.lagging.board import Board
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.watching import stalls as module
from mirrorfleet.watching.ends import EndsWatch
from mirrorfleet.watching.stalls import StallWatch
from tests.unit.lagging.making import SLOT

AT = TopicPartition("__mirrorfleet.m.progress", SLOT)
LOOKS = 40


class World:
    """A slot that is held, the end of its partition, and who looks whether it is heard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.board = Board(Limits(silent_ms=100), sample_ms=5_000)
        self.board.hold(SLOT, (), 0)
        cluster = cast("Cluster", None)
        self.watch = StallWatch(cluster, FleetName("m"), SystemClock(), self.board)
        self.end, self.grows, self.comes = 0, 0, 0
        self.looks, self.refusals = 0, 0
        self.enough = asyncio.Event()
        monkeypatch.setattr(module, "LOOK_S", 0.01)
        monkeypatch.setattr(EndsWatch, "look", self.look)
        monkeypatch.setattr(EndsWatch, "look_at_refused", self.look_at_refused)

    async def look(self, wanted: Collection[TopicPartition]) -> int:
        assert list(wanted) == [AT]
        self.looks += 1
        if self.looks >= LOOKS:
            self.enough.set()
        if self.refusals:
            self.refusals -= 1
            raise DeadlineError("west: no answer")
        self.end += self.grows
        if self.comes:
            self.board.hearing.came(SLOT, self.end - 1)
        self.watch.ended(AT, self.end, 0)
        return 1

    async def look_at_refused(self) -> int:
        return 0

    async def watched(self) -> str:
        """Why the watch ended; empty when it did not in as many looks as matter."""
        task = asyncio.create_task(self.watch.run())
        enough = asyncio.create_task(self.enough.wait())
        await asyncio.wait({task, enough}, return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()
        if not task.done():
            task.cancel()
            return ""
        with pytest.raises(ConnectionLostError) as ended:
            await task
        return str(ended.value)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_stream_of_which_nothing_comes_while_more_is_written_is_ended(
    world: World,
) -> None:
    world.grows, world.refusals = 1, 3

    assert "__mirrorfleet.m.progress-1" in await world.watched()
    # 3 without an answer, one that finds where the end is, and 11 that span the limit
    assert world.looks == 3 + 1 + 11


async def test_a_stream_that_brings_what_is_written_goes_on(world: World) -> None:
    world.grows, world.comes = 1, 1

    assert await world.watched() == ""


async def test_a_stream_of_which_nothing_comes_because_nothing_is_written_goes_on(
    world: World,
) -> None:
    assert await world.watched() == ""


async def test_of_a_slot_whose_leader_tells_no_end_nobody_sees_whether_it_is_silent(
    world: World,
) -> None:
    world.refusals = LOOKS

    assert await world.watched() == ""
    assert world.board.hearing.is_blind(SLOT)
    world.watch.ended(AT, 1, 0)
    assert not world.board.hearing.is_blind(SLOT)
