"""When a group that went by itself on the target is followed again: by who moves, not by members
alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.groups import GroupState, ListedGroup
from mirrorfleet.offsets.homes import GroupOffset, written_for
from mirrorfleet.records.checkpoint import Checkpoint
from services.checkpoint import link as link_module
from tests.unit.services.checkpoint.test_link import (
    EMPTY,
    MAY_NOT,
    Answers,
    Nothing,
    World,
    copied,
    here,
    installed,
    places,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.kafka.cluster import Cluster
    from services.checkpoint.link import LinkGroups

LOOK_S = 5.0
WORKING = {"g": ListedGroup("g", GroupState.STABLE, 1)}
Groups = dict[str, ListedGroup]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


def listing(monkeypatch: pytest.MonkeyPatch, source: Groups, target: Groups) -> None:
    """`target` is shown to those who ask for any protocol."""

    async def listed(
        cluster: Cluster, *, any_protocol: bool = False, deadline_s: float
    ) -> dict[str, ListedGroup]:
        return source if cluster.name == "east" else target if any_protocol else {}

    monkeypatch.setattr(link_module, "list_groups", listed)


async def look_for(world: World, link: LinkGroups, seconds: float) -> None:
    until = world.now + seconds
    while world.now < until:
        world.now += LOOK_S
        await link.look(copied())


class Echoes(Nothing):
    """What the fleet of the other way wrote for the group."""

    def __init__(self) -> None:
        self.written: dict[TopicPartition, tuple[TargetOffset, ...]] = {}

    def of(self, _: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
        return self.written


async def test_a_group_that_moves_on_the_target_unseen_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its consumers there come and go between two looks, or assign their partitions themselves."""
    listing(monkeypatch, WORKING, EMPTY)
    world.source, world.target = places(40), {there(0): GroupOffset(10)}
    link = world.link()

    for offset in range(11, 18):
        await look_for(world, link, 290)
        world.target[there(0)] = GroupOffset(offset)
    await look_for(world, link, 295)

    assert (world.commits, world.target[there(0)]) == ([], GroupOffset(17))
    await look_for(world, link, 30)
    assert world.commits == [{there(0): GroupOffset(40)}]


async def test_a_group_that_another_protocol_works_for_on_the_target_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing(monkeypatch, WORKING, WORKING)
    world.source, world.target = places(40), {there(0): GroupOffset(10)}
    link = world.link()

    await look_for(world, link, 400)

    assert world.commits == []
    assert link.report.decisions["g"].why == "it has members on the target"


async def test_a_group_that_moves_at_the_source_without_members_comes_home(world: World) -> None:
    world.source, world.target = places(20), {there(0): GroupOffset(10)}
    link = world.link()
    await look_for(world, link, 400)
    assert world.commits == []

    world.source = places(21)
    await look_for(world, link, 2 * LOOK_S)

    assert world.commits == [{there(0): GroupOffset(21)}]


async def test_a_first_commit_at_the_source_is_a_move(world: World) -> None:
    world.source, world.target = {}, {there(0): GroupOffset(10)}
    link = world.link()
    await look_for(world, link, 400)

    world.source = places(21)
    await look_for(world, link, 2 * LOOK_S)

    assert world.commits == [{there(0): GroupOffset(21)}]


async def test_a_group_that_rested_on_both_sides_comes_home_no_sooner_than_one_that_has_members(
    world: World,
) -> None:
    world.source, world.target = places(20), {there(0): GroupOffset(10)}
    link = world.link()
    await look_for(world, link, 100)
    world.source = places(21)

    await look_for(world, link, 200)
    assert world.commits == []
    await look_for(world, link, 10)

    assert world.commits == [{there(0): GroupOffset(21)}]


async def test_what_the_other_way_wrote_at_the_source_brings_no_group_home(world: World) -> None:
    """Also what it wrote while we asked, which we know as its own at the next look only."""
    world.source, world.target = places(20), {there(0): GroupOffset(10)}
    link, echoes = world.link(), Echoes()
    link._echoes = echoes  # type: ignore[assignment]  # a fake of a topic
    await look_for(world, link, 400)

    for offset in (21, 22, 23):
        world.source = places(offset)
        await look_for(world, link, LOOK_S)
        echoes.written[here(0)] = (TargetOffset(offset),)
        await look_for(world, link, LOOK_S)

    assert world.commits == []


async def test_a_place_that_is_an_echo_no_more_is_no_move(world: World) -> None:
    """The topic that told of it was lost; the group stands where it stood."""
    world.source, world.target = places(20, 20), {there(0): GroupOffset(10)}
    link, echoes = world.link(), Echoes()
    link._echoes = echoes  # type: ignore[assignment]  # a fake of a topic
    echoes.written[here(0)] = (TargetOffset(20),)
    await look_for(world, link, 400)
    world.commits.clear()

    echoes.written.clear()
    await look_for(world, link, 20)

    assert world.commits == []
    assert world.target[there(0)] == GroupOffset(10)


async def test_a_group_that_moves_on_both_sides_is_left_alone(world: World) -> None:
    world.source, world.target = places(20), {there(0): GroupOffset(10)}
    link = world.link()

    for step in range(1, 20):
        await look_for(world, link, 100)
        world.source, world.target[there(0)] = places(20 + step), GroupOffset(10 + step)

    assert world.commits == []


async def test_topics_of_other_links_say_nothing_about_who_is_at_work(world: World) -> None:
    """On the target another link sets them; at the source nobody copies them from."""
    elsewhere = TopicPartition("south.orders", 0)
    world.topic = [Checkpoint("g", there(0), SourceOffset(0), TargetOffset(0), "", ())]
    world.source, world.target = places(20), {there(0): GroupOffset(10)}
    link = world.link()
    for step in range(80):
        world.target[elsewhere] = GroupOffset(step)
        world.source[TopicPartition("local", 0)] = GroupOffset(step)
        await look_for(world, link, LOOK_S)
    assert world.commits == []

    world.source |= places(21)
    await look_for(world, link, 2 * LOOK_S)

    assert world.commits == [{there(0): GroupOffset(21)}]


async def test_where_a_group_had_come_to_by_itself_is_told_from_what_was_written_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`failback` counts it still; and it is followed from there."""
    listing(monkeypatch, WORKING, EMPTY)
    world.source, world.target = places(4), {there(0): GroupOffset(10)}
    link = world.link()

    await look_for(world, link, 400)

    (point,) = {each.partition: each for each in world.topic}.values()
    written = {point.partition: point.written}
    assert (written, written_for(written)) == ({there(0): (10, 10)}, {})
    world.source = places(40)
    await look_for(world, link, 2 * LOOK_S)
    assert world.commits == [{there(0): GroupOffset(40)}]
    (point,) = {each.partition: each for each in world.topic}.values()
    assert written_for({point.partition: point.written}) != {}


async def test_a_group_that_the_source_does_not_list_any_more_is_asked_about(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may only be hidden from us: then its places do not follow, and that is told."""
    link = world.link()
    await link.look(copied())
    listing(monkeypatch, {}, EMPTY)
    fetch = world.fetch_offsets

    async def refused(cluster: Cluster, groups: Iterable[str], **more: object) -> Answers:
        if cluster.name == "east":
            return dict.fromkeys(groups, MAY_NOT)
        return await fetch(cluster, groups, **more)  # type: ignore[arg-type]  # handed on as it is

    monkeypatch.setattr(link_module, "fetch_offsets", refused)
    await link.look(copied())

    assert "GROUP_AUTHORIZATION_FAILED" in link.report.refused["g"]
