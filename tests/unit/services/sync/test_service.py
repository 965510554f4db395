"""Looks at a link whose target refuses what makes a copy exact, and takes it later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.runtime.entry import Context
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.lifecycle import Lifecycle
from mirrorfleet.runtime.metrics import Metrics
from mirrorfleet.syncing import making
from mirrorfleet.syncing.fleet import BACK_S, FleetSync
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching import acls
from mirrorfleet.watching.source import SourceWatch
from services.sync.service import SyncService
from tests.fakes.clock import HandClock, NoDice
from tests.faultkit.waiting import until
from tests.unit.planning.samples import OTHER_ID
from tests.unit.policy.test_crossing import an_acl
from tests.unit.syncing.adopting import COPY, LACKING, Clusters, Slow, an_estate, connect, opened


class World:
    """A sync without loops: a test looks."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.clock = clusters.clock if isinstance(clusters, Slow) else HandClock()
        self.told: list[Event] = []
        estate, west = an_estate(clusters.acls), ClusterAlias("west")
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
    sync.clock.seconds += 5
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


async def test_what_a_link_plans_is_claimed_before_another_one_plans(
    world: Callable[[Clusters], World],
) -> None:
    sync = world(Clusters())
    fleet = sync.service._fleet

    await fleet.plan(sync.side, await fleet.look(sync.side))

    assert [claim.target_topic for claim in sync.side.claims] == [COPY]


@pytest.mark.parametrize(
    ("waited_s", "looks", "created"), [(0.0, 1, [COPY]), (60.0, 2, [])], ids=["at once", "late"]
)
async def test_a_topic_that_is_gone_when_its_link_gets_its_turn_is_not_created(
    world: Callable[[Clusters], World], waited_s: float, looks: int, created: list[str]
) -> None:
    """A turn that comes at once costs no second look."""
    clusters = Clusters()
    clusters.shown = False
    sync = world(clusters)

    async with asyncio.TaskGroup() as group, sync.service._one_at_a_time:
        group.create_task(sync.look())
        await until(lambda: clusters.looks, deadline_s=5, what="a look at the source")
        clusters.there = False
        sync.clock.seconds += waited_s

    assert (clusters.created, clusters.looks) == (created, looks)


class Guarded(Clusters):
    """Both have an authorizer, and the source has no topic yet."""

    acls = "mirror"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.there = self.shown = False
        self.denials: list[AclBinding] = []
        """At the source."""
        self.made: list[AclBinding | str] = []
        monkeypatch.setattr(acls, "describe_acls", self.describe)
        monkeypatch.setattr(making, "create_acls", self.create_acls)

    async def describe(self, cluster: Cluster, **_: object) -> list[AclBinding]:
        return self.denials if cluster.name == "east" else []

    async def create_acls(
        self, _: Cluster, bindings: list[AclBinding], *, deadline_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        self.made += bindings
        return dict.fromkeys(bindings)

    async def create_topics(
        self, cluster: Cluster, topics: Sequence[NewTopic], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        self.made += (each.name for each in topics)
        return dict.fromkeys(each.name for each in topics)


async def test_a_denial_that_came_to_the_source_before_its_topic_is_there_before_the_copy(
    monkeypatch: pytest.MonkeyPatch, world: Callable[[Clusters], World]
) -> None:
    clusters = Guarded(monkeypatch)
    sync = world(clusters)
    await sync.look()

    clusters.denials.append(an_acl("DENY User:a READ TOPIC LITERAL orders"))
    clusters.there = True
    await sync.look()

    assert clusters.made == [an_acl(f"DENY User:a READ TOPIC LITERAL {COPY}"), COPY]


async def test_a_topic_that_is_made_again_during_a_long_step_is_copied_as_what_it_is_now(
    world: Callable[[Clusters], World],
) -> None:
    sync = world(Slow(HandClock()))

    await sync.look()

    entries = sync.service._store.book.partitions
    assert [identity.source_topic_id for identity in entries] == [OTHER_ID]


async def test_what_has_ended_and_seems_to_be_there_again_goes_on_when_that_lasts(
    world: Callable[[Clusters], World],
) -> None:
    clusters = Clusters()
    clusters.compression = "producer"
    sync = world(clusters)
    await sync.look()
    book = sync.service._store.book
    (old,) = book.partitions.values()
    later = replace(old.identity, source_topic_id=OTHER_ID, incarnation=1)
    book.learn(replace(old, state=CatalogState.REMOVED))
    book.learn(replace(old, identity=later))

    held = await sync.look()
    before = [each.state for each in book.partitions.values()]
    sync.clock.seconds += BACK_S
    lasting = await sync.look()

    assert (held, before) == (["former-topic"], [CatalogState.REMOVED, CatalogState.ACTIVE])
    assert lasting == []
    assert [each.state for each in book.partitions.values()] == ["active", "removed"]


async def test_what_we_may_not_read_of_others_is_told_and_does_not_make_it_unready(
    world: Callable[[Clusters], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = Clusters()
    clusters.refuses = None
    sync = world(clusters)
    health, requests = sync.service._context.health.active, sync.service._fleet._anew
    monkeypatch.setattr(SourceWatch, "loop_trouble", "no READ")
    requests.trouble = "no leader"

    await sync.look()
    told = health.notes()
    monkeypatch.setattr(SourceWatch, "loop_trouble", "")
    requests.trouble = ""
    await sync.look()

    assert told == {
        "link east->west": "loops are not all seen: no READ",
        "requests": "what workers ask for cannot be read: no leader",
    }
    assert (health.notes(), health.held()) == ({}, {})
