"""Which slots a worker says it can copy, and how those are that it holds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.contact import OTHERS_S, OWN_S
from mirrorfleet.copying.loads import CAUGHT_UP_S
from mirrorfleet.core.ids import ClusterAlias, SlotNumber, TopicPartition
from mirrorfleet.records.members import Known, Slots
from services.mirror.claiming import Claiming
from tests.fakes.clock import HandClock
from tests.unit.copying.making import partition_of, slot, slots

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner

EAST, SOUTH = ClusterAlias("east"), ClusterAlias("south")
MINE, THEIRS, IDLE, FAR = slots(0), slots(1), slots(2), slots(3)
ALL = MINE | THEIRS | IDLE | FAR
RATE = 1_000


class World:
    """A worker that holds slot 0 of two of `east`; `south` was never reached."""

    def __init__(self) -> None:
        self.clock, self.held, self.slot = HandClock(), MINE, slot()
        self.wedges = SimpleNamespace(left_behind=frozenset[TopicPartition]())
        made = SimpleNamespace(number=SlotNumber(0), slot=self.slot, wedges=self.wedges)
        runner = cast("SlotRunner", made)
        self.claiming = Claiming(self.clock, self._held, lambda: [runner])
        sources = {SlotNumber(0): EAST, SlotNumber(1): EAST, SlotNumber(3): SOUTH}
        self.east = self.claiming.meets(EAST)
        self.claiming.learned(ALL, sources, [EAST])

    def _held(self) -> Slots:
        return self.held

    def passes(self, seconds: float, *, answers: bool, rate: int = RATE) -> None:
        """Each second of it is measured; nothing comes from a source that does not answer."""
        partition = partition_of(self.slot)
        for _ in range(int(seconds)):
            self.clock.seconds += 1
            if answers:
                before = partition.committed
                partition.committed = replace(before, bytes=before.bytes + rate)
                self.east.heard(self.clock.seconds)
            self.claiming.sample()


def test_slots_of_a_source_are_away_before_it_was_reached_and_while_it_is_lost() -> None:
    world = World()
    assert world.claiming.known() == Known(ALL, MINE | THEIRS, FAR)
    world.passes(OTHERS_S + 1, answers=False)
    assert world.claiming.known() == Known(ALL, MINE, THEIRS | FAR)
    world.passes(OWN_S, answers=False)
    assert world.claiming.known() == Known(ALL, slots(), MINE | THEIRS | FAR)
    world.passes(1, answers=True)
    assert world.claiming.known() == Known(ALL, MINE, THEIRS | FAR)
    world.held = slots()
    assert world.claiming.known() == Known(ALL, slots(), MINE | THEIRS | FAR)


def test_a_source_that_was_met_is_not_copied_from_before_its_slots_were_looked_at() -> None:
    world = World()
    world.claiming.meets(SOUTH)
    assert world.claiming.known().busy == MINE | THEIRS


def test_what_a_slot_carries_is_what_it_carried_before_its_source_was_lost() -> None:
    world = World()
    world.passes(2 * CAUGHT_UP_S + 40, answers=True)
    assert world.claiming.carried().loads == {SlotNumber(0): RATE}
    world.passes(600, answers=False)
    assert world.claiming.carried().loads == {SlotNumber(0): RATE}
    world.passes(CAUGHT_UP_S, answers=True, rate=50 * RATE)
    assert world.claiming.carried().loads == {SlotNumber(0): RATE}


def test_a_slot_that_goes_on_without_a_partition_is_told_of_as_long_as_it_does() -> None:
    world = World()
    assert world.claiming.carried().diverted == slots()
    world.wedges.left_behind = frozenset({TopicPartition("east.orders", 1)})
    assert world.claiming.carried().diverted == MINE
    world.wedges.left_behind = frozenset()
    assert world.claiming.carried().diverted == slots()
