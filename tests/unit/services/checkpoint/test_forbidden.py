"""A target that refuses one topic of a group, and sets its other offsets."""

from __future__ import annotations

import pytest

from mirrorfleet.offsets.homes import GroupOffset
from tests.unit.services.checkpoint.test_link import DAY_S, World, copied, installed, there


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


async def test_of_a_group_with_a_forbidden_topic_only_that_is_set_again(world: World) -> None:
    world.forbidden = {there(1)}
    link = world.link()

    for _ in range(2):
        await link.look(copied())

    assert [set(one) for one in world.commits] == [{there(0), there(1)}, {there(1)}]
    assert "TOPIC_AUTHORIZATION_FAILED" in link.report.refused["g"]
    world.forbidden = set()
    await link.look(copied())
    await link.look(copied())
    assert world.target == {there(0): GroupOffset(5), there(1): GroupOffset(5)}
    assert ([set(one) for one in world.commits[2:]], link.report.refused) == ([{there(1)}], {})


async def test_of_a_group_that_is_kept_while_its_source_is_away_each_place_is_set_once_in_time(
    world: World,
) -> None:
    """Also where one is refused by itself, which stands all the same."""
    await world.link().look(copied())
    world.commits.clear()
    world.forbidden = {there(1)}
    link = world.link()

    for _ in range(3):
        await link.keep(copied())
    world.now += DAY_S
    await link.keep(copied())

    assert [set(one) for one in world.commits] == [{there(0), there(1)}] * 2
