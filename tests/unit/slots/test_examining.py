"""Whether the source lost what is wanted: two looks at its leader, after a refusal."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Fault
from mirrorfleet.copying.loss import Look
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.slots import healing, target_loss
from tests.unit.copying.making import partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner

NOW = 100.0
CUT = Look(0, 3, -1)
"""The log ends before where the partition stands."""
LOST = Look(50, 90, -1)
"""The log begins behind where the partition stands."""
WHOLE = Look(0, 90, -1)


class World:
    """A source that is looked at, and what follows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Look | Exception) -> None:
        self.copying = slot()
        self.partition = partition_of(self.copying)
        self.looks = iter(looks)
        self.fetched_meanwhile: list[bool] = []
        self.told: list[Fault] = []
        self.troubles: list[Exception] = []
        monkeypatch.setattr(healing, "_look", self._look)

    async def look(self) -> None:
        wanted = self.copying.wanted(self.partition.pace, NOW + 3_600)
        self.fetched_meanwhile.append(bool(wanted))

    async def _look(self, runner: object, partition: object) -> Look:
        del runner, partition
        await self.look()
        found = next(self.looks)
        if isinstance(found, Exception):
            raise found
        return found

    async def _renewed(self) -> None:
        pass

    def _stop(self, partition: CopyPartition, fault: Fault) -> None:
        del partition
        self.told.append(fault)

    async def examine(self) -> None:
        runner = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: NOW),
            sources=SimpleNamespace(renewed=self._renewed),
            source_trouble=self.troubles.append,
            stop_partition=self._stop,
        )
        await healing.examine(cast("SlotRunner", runner), self.partition)


@pytest.mark.parametrize(
    ("looks", "faults"),
    [((LOST, LOST), 1), ((LOST, WHOLE), 0), ((WHOLE, WHOLE), 0)],
    ids=["two looks agree", "they do not", "nothing is lost"],
)
async def test_two_looks_that_agree_prove_a_loss(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[Look, ...], faults: int
) -> None:
    world = World(monkeypatch, *looks)

    await world.examine()

    assert len(world.told) == faults


@pytest.mark.parametrize("second", [WHOLE, ConnectionLostError("gone")])
async def test_what_is_examined_is_not_fetched_before_that_is_over(
    monkeypatch: pytest.MonkeyPatch, second: Look | Exception
) -> None:
    """However long that takes: each refusal would have it examined once more."""
    world = World(monkeypatch, WHOLE, second)

    await world.examine()

    assert world.fetched_meanwhile == [False, False]
    assert world.partition.held_until == NOW + healing.EXAMINED_AGAIN_S
    assert len(world.troubles) == isinstance(second, Exception)


@pytest.mark.parametrize("when", ["between the looks", "while copies are listed"])
async def test_looks_at_what_was_read_on_meanwhile_prove_nothing(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its target moved, it was held back and let go: a leader that lagged is there by now."""
    world = World(monkeypatch, CUT, CUT)
    world.partition.walked_to = SourceOffset(8)

    async def read_on() -> None:
        world.partition.walked_to = SourceOffset(world.partition.walked_to + 1)

    async def listed(runner: object, partition: object, fault: Fault) -> Fault:
        del runner, partition
        await (read_on() if when == "while copies are listed" else asyncio.sleep(0))
        return fault

    if when == "between the looks":
        monkeypatch.setattr(world, "_renewed", read_on)
    monkeypatch.setattr(target_loss, "listed", listed)

    await world.examine()

    assert world.told == []


async def test_nor_while_it_is_found_out_which_copies_are_of_the_history_that_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That reads the slot's whole map."""
    world = World(monkeypatch, CUT, CUT)
    world.partition.walked_to = SourceOffset(8)

    async def listed(runner: object, partition: CopyPartition, fault: Fault) -> Fault:
        del runner, partition
        await world.look()
        return fault

    monkeypatch.setattr(target_loss, "listed", listed)

    await world.examine()

    assert world.fetched_meanwhile == [False] * 3
    assert len(world.told) == 1
