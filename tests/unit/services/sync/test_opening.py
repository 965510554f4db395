"""Sources are reached side by side: none waits for another one that is away."""

from __future__ import annotations

import asyncio

import pytest

from mirrorfleet.core.ids import Link
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.side import Side
from tests.unit.services.mirror.test_sources import EAST, SOUTH, WEST
from tests.unit.services.sync.test_sources import Meeting
from tests.unit.standby.test_demotion import for_ever


async def test_a_source_is_reached_while_another_one_does_not_answer_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    south_is_asked = asyncio.Event()

    async def reach(_: FleetSync, side: Side) -> None:
        if side.link.source == EAST:
            await south_is_asked.wait()
        else:
            south_is_asked.set()

    monkeypatch.setattr(FleetSync, "open_source", reach)
    assert [side.link.source for side in sync.service._sides] == [EAST, SOUTH]

    async with asyncio.timeout(5):
        assert await sync.service._open_sources() == {}


async def test_who_becomes_active_leaves_a_source_that_is_silent_to_its_own_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    meet = Cluster.open

    async def silent(cluster: Cluster) -> None:
        if cluster.settings.alias == SOUTH:
            await for_ever()
        await meet(cluster)

    monkeypatch.setattr("services.sync.service._TAKE_OVER_S", 0.01)
    monkeypatch.setattr(Cluster, "open", silent)
    async with asyncio.timeout(5):
        await sync.begin()

    assert sync.known == [EAST]
    assert sync.reasons()["link south->west"] == "south does not answer yet."


async def test_a_source_that_was_refused_and_is_away_now_is_not_introduced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows which cluster it is: it was forgotten."""
    sync = Meeting(monkeypatch)
    sync.answering[SOUTH] = "east"
    await sync.service._open_sources()
    assert set(await sync.service._refuse()) == {Link(EAST, WEST), Link(SOUTH, WEST)}

    sync.answering[SOUTH] = "south"
    sync.away.add(EAST)
    await sync.begin()

    assert sync.known == [SOUTH]
    assert [link.source_cluster for link in sync.book.links.values()] == ["south"]
    sync.away.clear()
    await sync.meet(EAST)
    assert sync.known == [EAST, SOUTH]
