"""Looks at a link whose target refuses what makes a copy exact, and takes it later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.runtime.entry import Context
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.lifecycle import Lifecycle
from mirrorfleet.runtime.metrics import Metrics
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.store import Store
from services.sync.service import SyncService
from tests.unit.syncing.adopting import LACKING, Clusters, an_estate, connect, opened
from tests.unit.syncing.test_making import HandClock, NoDice


class World:
    """A sync without loops: a test looks."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters, self.clock = clusters, HandClock()
        self.told: list[Event] = []
        estate, west = an_estate(), ClusterAlias("west")
        context = Context(
            estate=estate,
            target=west,
            fleet=estate.fleet_of(west),
            settings={},
            owner="test",
            url="",
            clock=self.clock,
            dice=NoDice(),
            metrics=Metrics(),
            health=Health(Lifecycle()),
        )
        self.service = SyncService(context)
        self.side = opened(self.service._fleet)

    async def look(self) -> list[str]:
        """Look once; why topics are held then."""
        await self.service._look(self.side)
        (report,) = self.service.reports
        return [each.reason for each in report.held]

    def events(self) -> list[tuple[str, str]]:
        return [(each.kind, each.cause or each.detail) for each in self.told]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[[Clusters], World]:
    def make(clusters: Clusters) -> World:
        connect(monkeypatch, clusters)
        made = World(clusters)
        monkeypatch.setattr(Store, "tell", lambda _, event: made.told.append(event))
        return made

    return make


REFUSED = (EventKind.TOPIC_REFUSED, "config-refused")
CHANGED = (EventKind.CONFIG_CHANGED, LACKING)


@pytest.mark.parametrize("readable", [True, False])
async def test_a_refused_config_of_an_adopted_topic_is_held_told_once_and_tried_again(
    world: Callable[[Clusters], World], *, readable: bool
) -> None:
    clusters = Clusters(readable=readable)
    sync = world(clusters)

    held = [await sync.look(), await sync.look()]
    asked = clusters.asked
    clusters.refuses = None
    sync.clock.at += 5
    ended = await sync.look()

    assert held == [["config-refused"], ["config-refused"]]
    assert asked == 1
    assert (ended, clusters.asked, clusters.compression) == ([], 2, "producer")
    assert sync.events() == [REFUSED, CHANGED]
    assert len(sync.service._store.book.partitions) == 1


async def test_a_sync_that_begins_after_a_refusal_makes_the_copy_exact(
    world: Callable[[Clusters], World],
) -> None:
    clusters = Clusters()
    before = world(clusters)
    await before.look()
    after = world(clusters)
    after.service._store.book = before.service._store.book
    clusters.refuses = None

    assert await after.look() == []
    assert after.events() == [CHANGED]
    assert clusters.compression == "producer"


async def test_who_becomes_the_active_one_again_believes_nothing_of_before(
    world: Callable[[Clusters], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: FleetSync) -> None:
        raise DeadlineError("west does not answer")

    sync = world(Clusters())
    await sync.look()
    before = sync.side.claims
    monkeypatch.setattr(FleetSync, "learn_defaults", away)

    with pytest.raises(DeadlineError):
        await sync.service._begin()

    assert (len(before), sync.side.claims) == (1, ())
