"""What `apply` says of changes that the target refuses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.errors import DeadlineError, FencedError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, SlotNumber
from mirrorfleet.planning.pending import Kind, PlannedChange, planned_changes
from mirrorfleet.planning.plan import Creation, Plan
from mirrorfleet.records.catalog import CatalogLink
from mirrorfleet.records.topics import TopicSpec
from mirrorfleet.syncing import once as once_module
from mirrorfleet.syncing.changes import Change
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.once import SETTLE_S, Once, Outcome, Refused
from mirrorfleet.syncing.settings import SyncSettings
from mirrorfleet.syncing.side import Side
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching.source import SourceWatch
from tests.fakes.clock import HandClock, NoDice
from tests.unit.copying.making import entry
from tests.unit.planning.samples import CLAIM, EAST, LINK, OTHER_ID, WEST
from tests.unit.syncing.adopting import (
    COPY,
    Clusters,
    Slow,
    an_estate,
    connect,
    opened,
    two_sources,
)


async def applied(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    connect(monkeypatch, clusters)
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    opened(fleet)
    once = Once(fleet)
    return await once.apply((await once.preview()).changes)


def briefly(changes: list[PlannedChange]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.what, each.detail) for each in changes if each.kind is not Kind.LINK]


COPYING = ("copy", COPY, "from orders: partition 0, start earliest")
EDIT = ("config", COPY, "compression.type: gzip -> producer")


@pytest.mark.parametrize("readable", [True, False])
async def test_a_refused_config_of_an_adopted_topic_is_not_made_and_its_copy_is(
    monkeypatch: pytest.MonkeyPatch, *, readable: bool
) -> None:
    outcome = await applied(Clusters(readable=readable), monkeypatch)

    assert briefly(outcome.made) == [COPYING]
    assert briefly(outcome.not_made) == [EDIT]
    assert [(each.topic, each.reason) for each in outcome.refused] == [("orders", "config-refused")]
    assert outcome.further == []


async def test_a_config_of_an_adopted_topic_that_the_target_takes_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = Clusters()
    clusters.refuses = None

    outcome = await applied(clusters, monkeypatch)

    assert briefly(outcome.made) == [EDIT, COPYING]
    assert (outcome.not_made, outcome.refused) == ([], [])


@pytest.mark.parametrize("answers_then", [True, False])
async def test_an_error_in_the_middle_hides_nothing_of_what_was_made_before(
    monkeypatch: pytest.MonkeyPatch, *, answers_then: bool
) -> None:
    clusters, error = Clusters(), FencedError("another process took over.")
    clusters.refuses = None
    connect(monkeypatch, clusters)
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    opened(fleet)
    once, publish = Once(fleet), fleet.publish

    async def lost(side: Side, planned: Plan) -> None:
        if planned.publish:
            if not answers_then:
                monkeypatch.setattr(SourceWatch, "look", away)
            raise error
        await publish(side, planned)

    async def away(_: SourceWatch) -> None:
        raise DeadlineError("east does not answer.")

    monkeypatch.setattr(fleet, "publish", lost)
    agreed = (await once.preview()).changes
    if not answers_then:
        with pytest.raises(FencedError):
            await once.apply(agreed)
        return
    outcome = await once.apply(agreed)

    assert [each.kind for each in outcome.made] == [Kind.LINK]
    assert briefly(outcome.not_made) == [EDIT, COPYING]
    assert outcome.refused == [Refused("", "", "interrupted", str(error))]


class SlowFleet:
    """Makes a topic in five requests, each of which takes most of `SETTLE_S`."""

    def __init__(self, plan: Plan) -> None:
        self.clock, self.made = HandClock(), 0
        self.changes = SimpleNamespace(next_step=self._next_step, refused=lambda _: frozenset())
        self.refreshed = 0
        self.store = SimpleNamespace(book=SimpleNamespace(claims=list), refresh=self._refresh)
        self._plan = plan

    async def _refresh(self) -> None:
        self.refreshed += 1

    async def look(self, _: Side) -> None:
        pass

    async def renewed(self, *_: object) -> None:
        pass

    async def plan(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(plan=self._plan if self.made < 5 else Plan())

    async def publish(self, *_: object) -> None:
        pass

    async def make(self, *_: object) -> None:
        self.made += 1
        self.clock.seconds += SETTLE_S * 0.9

    def _next_step(self, _: Link, part: Plan, __: set[Change]) -> Plan:
        return part


async def test_many_changes_may_take_longer_than_the_last_one_needs_to_settle() -> None:
    """Each request is of some topics only, and a target may be far away."""
    plan = Plan(create=(Creation(CLAIM, TopicSpec("east.orders", 1, 1, {})),))
    creation = planned_changes(LINK, plan)[:1]
    fleet, side = SlowFleet(plan), cast("Side", SimpleNamespace(link=LINK))

    await Once(cast("FleetSync", fleet))._bring_in_step(side, creation)

    assert fleet.made == 5
    assert fleet.refreshed == 6  # before each: others may write to the catalog meanwhile


async def test_a_topic_that_is_made_again_while_its_copy_is_made_is_copied_as_what_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(HandClock())
    connect(monkeypatch, slow)
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), slow.clock, NoDice())
    opened(fleet)
    once = Once(fleet)

    outcome = await once.apply((await once.preview()).changes)

    assert [each.kind for each in outcome.made] == [Kind.LINK, Kind.CREATE, Kind.COPY]
    assert [each.source_topic_id for each in fleet.store.book.partitions] == [OTHER_ID]


async def test_a_copy_that_exists_and_is_not_shown_is_not_made_and_the_missing_right_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(once_module, "SETTLE_S", 0.0)
    clusters = Clusters()
    clusters.shown = False

    outcome = await applied(clusters, monkeypatch)

    assert [each.kind for each in outcome.not_made] == [Kind.CREATE, Kind.COPY]
    (refused,) = outcome.refused
    assert (refused.topic, refused.reason) == ("orders", "refused-by-target")
    assert f"may not DESCRIBE Topic:{COPY} on west" in refused.detail


@pytest.mark.parametrize(
    ("is_away", "in_catalog", "stops"),
    [(False, False, True), (True, False, False), (True, True, True)],
    ids=["met", "away", "away and in the catalog"],
)
async def test_no_link_is_stopped_while_a_source_is_away_which_may_be_it(
    monkeypatch: pytest.MonkeyPatch, *, is_away: bool, in_catalog: bool, stops: bool
) -> None:
    connect(monkeypatch, Clusters())
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    side, old = opened(fleet), Link(ClusterAlias("old"), ClusterAlias("west"))
    known = fleet.give_slots(side)
    fleet.store.book.learn(entry(link=old))
    if is_away:
        side.source_cluster = None
    if in_catalog and known is not None:
        fleet.store.book.learn(known)

    found = await Once(fleet).preview()

    stopped = [each.link for each in found.changes if each.kind is Kind.STOP]
    kept = [(each.link, each.reason) for each in found.refused if each.link == str(old)]
    assert stopped == ([str(old)] if stops else [])
    assert kept == ([] if stops else [(str(old), "still-copied")])


async def test_what_went_away_while_somebody_was_asked_is_not_said_to_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = Clusters()
    connect(monkeypatch, clusters)
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    opened(fleet)
    once = Once(fleet)
    agreed = (await once.preview()).changes
    clusters.compression = "producer"  # by hand, meanwhile

    outcome = await once.apply(agreed)

    assert clusters.asked == 0
    assert briefly(outcome.made) == [COPYING]
    assert briefly(outcome.gone) == [EDIT]
    assert outcome.not_made == []


async def test_requests_of_workers_that_cannot_be_read_are_told_and_nothing_is_said_to_be_in_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, Clusters())
    fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    opened(fleet)
    fleet._anew.trouble = "no leader"

    told = (await Once(fleet).preview()).unreached

    words = "what workers ask for cannot be read: no leader"
    assert told == [Refused("", "", "requests", words)]

    async def grown(*_: object) -> tuple[list[TopicSpec], dict[str, int]]:
        return [TopicSpec("__mirrorfleet.west.samples", 1, 1, {})], {"__mirrorfleet.west.slots": 4}

    async def new_topics(*_: object) -> tuple[list[TopicSpec], dict[str, int]]:
        return [TopicSpec("__mirrorfleet.west.commands", 1, 1, {})], {}

    monkeypatch.setattr(Store, "wanted_topics", grown)
    assert (await Once(fleet).preview()).unreached == told
    monkeypatch.setattr(Store, "wanted_topics", new_topics)
    assert (await Once(fleet).preview()).unreached == []  # nothing is in a topic that is new


NORTH = Link(ClusterAlias("north"), ClusterAlias("west"))


def with_two_sources(monkeypatch: pytest.MonkeyPatch, north: str, *known: CatalogLink) -> FleetSync:
    """A fleet whose second source answers as the cluster `north`, and its catalog's links."""
    connect(monkeypatch, Clusters())
    fleet = FleetSync(two_sources(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
    fleet.target._cluster_id = WEST

    async def nothing(*_: object) -> None:
        pass

    async def reached(each: Side) -> None:
        each.cluster._cluster_id = ClusterId(north) if each.link == NORTH else EAST
        each.source_cluster = each.cluster.cluster_id

    monkeypatch.setattr(fleet.target, "open", nothing)
    monkeypatch.setattr(fleet, "learn_defaults", nothing)
    monkeypatch.setattr(fleet, "open_source", reached)
    for each in known:
        fleet.store.book.learn(each)
    return fleet


def known_as(link: Link, cluster: str, slot: int) -> CatalogLink:
    return CatalogLink(
        link=link,
        source_cluster=ClusterId(cluster),
        target_cluster=WEST,
        slots=(SlotNumber(slot),),
    )


async def test_a_link_that_is_refused_leaves_the_others_to_be_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = with_two_sources(monkeypatch, "north-2", known_as(NORTH, "north-1", 2))
    (side, _), once = fleet.sides, Once(fleet)

    await once.open()
    found = await once.preview()

    assert [(each.link, each.reason) for each in found.unreached] == [("north->west", "refused")]
    assert {each.link for each in found.changes} == {"east->west"}
    fleet.sides.remove(side)
    with pytest.raises(RefusedError, match="north"):
        await Once(fleet).open()


async def test_a_link_that_is_gone_goes_on_while_one_that_is_refused_answers_as_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been renamed by mistake: what is copied must not end with that."""
    old = Link(ClusterAlias("old"), ClusterAlias("west"))
    first = entry(link=old)
    copy = replace(first, identity=replace(first.identity, source_cluster=ClusterId("o")))
    links = known_as(old, "o", 2), known_as(NORTH, "north-1", 3)
    fleet = with_two_sources(monkeypatch, "o", *links)
    fleet.store.book.learn(copy)
    once = Once(fleet)

    await once.open()
    found = await once.preview()

    assert [(each.link, each.reason) for each in found.unreached] == [("north->west", "refused")]
    assert [each.kind for each in found.changes if each.kind is Kind.STOP] == []
    kept = [(each.link, each.reason) for each in found.refused if each.reason == "still-copied"]
    assert kept == [(str(old), "still-copied")]


async def test_control_topics_that_another_process_made_meanwhile_were_not_made_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = TopicSpec("__mirrorfleet.west.commands", 1, 1, {})
    missing = [topic]

    async def wanted(*_: object) -> tuple[list[TopicSpec], dict[str, int]]:
        return list(missing), {}

    async def ensure(*_: object) -> None:
        missing.clear()

    clusters = Clusters()
    clusters.refuses = None
    connect(monkeypatch, clusters)
    monkeypatch.setattr(Store, "wanted_topics", wanted)
    monkeypatch.setattr(Store, "ensure_topics", ensure)
    told = {}
    for by_others in (False, True):
        missing[:] = [topic]
        fleet = FleetSync(an_estate(), ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())
        opened(fleet)
        once = Once(fleet)
        agreed = (await once.preview()).changes
        if by_others:
            missing.clear()
        outcome = await once.apply(agreed)
        told[by_others] = [
            [each.what for each in changes if each.kind is Kind.CONTROL_TOPIC]
            for changes in (outcome.made, outcome.gone)
        ]

    assert told == {False: [[topic.name], []], True: [[], [topic.name]]}
