"""A group before the first record that was copied is led over nothing that it may lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mirrorfleet.mapping import before_copies
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from services.checkpoint.report import shut_out
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.services.checkpoint.test_coming_home import LOOK_S, WORKING, listing
from tests.unit.services.checkpoint.test_link import EMPTY, World, installed, places, there

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster
    from services.checkpoint.link import LinkGroups


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The group is at work at the source, and stands before what is copied from there."""
    made = installed(monkeypatch)
    holding(monkeypatch, 0)
    listing(monkeypatch, WORKING, EMPTY)
    made.source = places(10)
    return made


def holding(monkeypatch: pytest.MonkeyPatch, *offsets: int) -> list[tuple[int, int]]:
    """The target has committed records there; what it was asked: start and end."""
    asked: list[tuple[int, int]] = []

    async def first_committed(_: Cluster, at: TopicPartition, start: int, end: int) -> int | None:
        assert at == there(0)
        asked.append((start, end))
        return next((offset for offset in offsets if offset >= start), None)

    monkeypatch.setattr(before_copies, "first_committed", first_committed)
    return asked


def adopted() -> Copies:
    """Source offset 50 is the first that was copied, behind 500 records of MirrorMaker 2."""
    index = OffsetIndex()
    index.add(identity(), [run_of(50, 100, 500)])
    return Copies([entry()], index)


async def look_for(world: World, link: LinkGroups, seconds: float) -> None:
    until = world.now + seconds
    while world.now < until:
        world.now += LOOK_S
        await link.look(adopted())


async def test_a_group_stays_where_it_is_before_the_first_record_that_was_copied(
    world: World,
) -> None:
    """MirrorMaker 2 put it there; from the first record of ours on it is followed."""
    world.target = {there(0): GroupOffset(450)}
    link = world.link()

    await look_for(world, link, 400)

    assert world.target == {there(0): GroupOffset(450)}
    assert {(one.source, one.target) for one in world.topic} == {(10, 450)}
    assert link.report.refused == {}
    world.source = places(60)
    await look_for(world, link, LOOK_S)
    assert world.target == {there(0): GroupOffset(510)}


async def test_a_group_without_a_place_before_that_record_is_told_and_not_set(
    world: World,
) -> None:
    link = world.link()

    await link.look(adopted())

    assert (world.target, world.topic, world.commits) == ({}, [], [])
    assert "copying began behind it" in link.report.refused["g"]
    assert shut_out(link) == "offsets do not follow for g: /status says why"
    world.source = places(50)
    await link.look(adopted())
    assert (world.target, link.report.refused) == ({there(0): GroupOffset(500)}, {})


async def test_a_group_before_a_copy_that_begins_behind_what_was_aborted_is_set(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = holding(monkeypatch, 500)
    link = world.link()

    for _ in range(2):
        await link.look(adopted())

    assert (world.target, link.report.refused) == ({there(0): GroupOffset(500)}, {})
    assert asked == [(0, 500)]
