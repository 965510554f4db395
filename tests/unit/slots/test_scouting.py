"""New partitions are looked at beside the copying, and begun when both sides have answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.slots import scouting, starting
from mirrorfleet.slots.scouting import Found, Scout
from mirrorfleet.slots.starting import Starts
from tests.unit.copying.making import entry, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

FIRST, SECOND, CHANGED = entry(0), entry(1), entry(0, null_keys="drop-recorded")


class World:
    """A slot that copies nothing yet, and two sides that answer when they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        self.led = asyncio.Event()
        self.troubles: list[Exception] = []
        self.asked: list[list[int]] = []
        leaders = SimpleNamespace(need_partitions=list)
        self.runner = SimpleNamespace(
            number=3,
            slot=slot(),
            target="west",
            sources=leaders,
            targets=leaders,
            tasks=None,
            taken_at=0.0,
            trouble="",
            unstarted={},
            clock=SimpleNamespace(now_ms=lambda: 5),
            report_fault=lambda partition: None,
            look_at_entries=lambda: self.looks.put_nowait(None),
        )
        self.runner.slot.known.clear()
        self.scout = Scout(cast("SlotRunner", self.runner))
        monkeypatch.setattr(scouting, "AGAIN_S", 0.0)
        monkeypatch.setattr(starting, "resolve_starts", self._starts)
        monkeypatch.setattr(scouting, "list_offsets", self._ends)

    async def _starts(self, runner: object, entries: list[CatalogPartition]) -> Starts:
        del runner
        self.asked.append([one.identity.partition for one in entries])
        return Starts({one.identity: SourceOffset(4) for one in entries}, {})

    async def _ends(self, *_: object, **__: object) -> None:
        if self.troubles:
            raise self.troubles.pop()
        await self.led.wait()

    async def looked(self) -> None:
        """Wait for the end of one more look."""
        async with asyncio.timeout(5):
            await self.looks.get()

    def numbers(self, *entries: CatalogPartition) -> list[int] | None:
        """Partitions that may begin now, of these that are new."""
        found = self.scout.found(entries)
        return None if found is None else [one.identity.partition for one in found.entries]


async def test_a_partition_begins_when_both_sides_have_answered_and_nobody_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    async with asyncio.TaskGroup() as world.runner.tasks:
        before = [world.numbers(FIRST), world.numbers(FIRST)]
        world.led.set()
        await world.looked()
        after = world.scout.found([FIRST])

    assert before == [None, None]
    assert after == Found([FIRST], Starts({FIRST.identity: SourceOffset(4)}, {}))
    assert world.asked == [[0]]


async def test_what_came_during_a_look_is_looked_at_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    async with asyncio.TaskGroup() as world.runner.tasks:
        assert [world.numbers(FIRST), world.numbers(FIRST, SECOND)] == [None, None]
        world.led.set()
        await world.looked()
        assert world.numbers(FIRST, SECOND) == [0]
        await world.looked()
        assert world.numbers(SECOND) == [1]

    assert world.asked == [[0], [1]]


async def test_what_the_catalog_changed_during_a_look_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    async with asyncio.TaskGroup() as world.runner.tasks:
        world.scout.found([FIRST])
        world.led.set()
        await world.looked()
        assert world.scout.found([CHANGED]) is None
        await world.looked()
        assert world.numbers(CHANGED) == [0]


async def test_a_side_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.troubles.append(DeadlineError("no answer"))
    world.led.set()
    async with asyncio.TaskGroup() as world.runner.tasks:
        world.scout.found([FIRST])
        await world.looked()
        assert world.numbers(FIRST) is None
        await world.looked()
        assert world.numbers(FIRST) == [0]


async def test_why_new_partitions_stand_is_told_while_a_side_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.troubles.append(DeadlineError("no answer"))
    world.runner.slot.known[SECOND.identity] = partition_of(slot(SECOND), 1).committed
    wanted: list[tuple[str, int]] = []
    world.runner.sources = SimpleNamespace(need_partitions=wanted.extend)
    async with asyncio.TaskGroup() as world.runner.tasks:
        world.scout.found([FIRST, SECOND])
        await world.looked()

    assert world.runner.trouble == "no answer"
    assert [one.partition for one in world.runner.unstarted] == [0]  # the other one has a position
    assert wanted == [("orders", 0), ("orders", 1)]


async def test_what_was_found_before_the_slot_was_taken_again_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its start may be gone from the source since."""
    world = World(monkeypatch)
    world.led.set()
    async with asyncio.TaskGroup() as world.runner.tasks:
        world.scout.found([FIRST])
        await world.looked()
        world.runner.taken_at = 1.0
        assert world.numbers(FIRST) is None
        await world.looked()
        assert world.numbers(FIRST) == [0]

    assert world.asked == [[0], [0]]
