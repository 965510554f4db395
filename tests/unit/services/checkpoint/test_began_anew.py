"""Offsets on a copy that began anew and has no record yet are kept, and people are told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.ids import TargetOffset
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from services.checkpoint.report import shut_out
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.services.checkpoint.test_link import (
    DAY_S,
    Nothing,
    World,
    copied,
    here,
    installed,
    places,
    there,
)

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.records.segments import Run
    from services.checkpoint.link import LinkGroups

KEPT = {there(0): GroupOffset(5)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


def anew(*runs: Run) -> Copies:
    """Copies of two partitions; the first began anew behind a gap, and has these records since."""
    index, again = OffsetIndex(), replace(identity(), incarnation=1)
    for number in range(2):
        index.add(identity(number), [run_of(0, 50, 0)])
    index.add(again, runs)
    loss = CatalogLoss(cause="record-gap", first=50, end=60)
    return Copies([entry(identity=again, loss=loss), entry(1)], index)


async def looked_once(world: World) -> LinkGroups:
    """A link that looked while all was well."""
    link = world.link()
    await link.look(copied())
    world.commits.clear()
    return link


async def test_a_place_on_a_copy_without_a_record_is_kept_and_told_until_there_is_one(
    world: World,
) -> None:
    link = await looked_once(world)
    topic = list(world.topic)
    world.source[here(1)] = GroupOffset(7)

    for days, times in ((0.0, 0), (0.5, 0), (0.5, 1), (0.5, 1), (0.5, 2)):
        world.now += days * DAY_S
        await link.look(anew())
        assert world.commits.count(KEPT) == times
        assert link.report.refused["g"].startswith("no place yet in east.orders-0:")
    assert shut_out(link) == "offsets do not follow for g: /status says why"
    assert world.target == {there(0): GroupOffset(5), there(1): GroupOffset(7)}
    assert [one for one in world.topic if one.partition == there(0)] == topic[:1]

    world.source[here(0)] = GroupOffset(70)
    await link.look(anew(run_of(60, 90, 51)))
    assert (world.target[there(0)], link.report.refused) == (GroupOffset(61), {})


async def test_a_group_that_has_no_other_place_is_kept_as_well(world: World) -> None:
    world.source = places(5)
    link = await looked_once(world)
    world.now += DAY_S

    await link.look(anew())

    assert world.commits == [KEPT]


async def test_a_group_that_went_anywhere_by_itself_is_neither_kept_nor_told(world: World) -> None:
    link = await looked_once(world)
    world.target[there(1)] = GroupOffset(9)
    world.now += DAY_S

    await link.look(anew())

    assert (world.commits, link.report.refused) == ([], {})


async def test_a_group_that_the_source_has_nothing_of_any_more_is_not_kept(world: World) -> None:
    link = await looked_once(world)
    del world.source[here(0)]
    world.now += DAY_S

    await link.look(anew())

    assert (KEPT in world.commits, link.report.refused) == (False, {})


async def test_what_the_other_fleet_wrote_at_the_source_keeps_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Echoes(Nothing):
        def of(self, _: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
            return {here(0): (TargetOffset(5),)}

    link = await looked_once(world)
    monkeypatch.setattr(link, "_echoes", Echoes())
    world.now += DAY_S

    await link.look(anew())

    assert (KEPT in world.commits, link.report.refused) == (False, {})
