"""A link is known when its introduction is complete, and no other link has its slots meanwhile.

And no two names are one cluster: neither two sources of a fleet nor two targets of the estate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, RefusedError
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterAlias, ClusterId, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import Metadata, PartitionMeta, TopicMeta
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.observed import SourceView
from mirrorfleet.planning.plan import Growth, Plan
from mirrorfleet.records.catalog import CatalogAcl, CatalogEntry, CatalogLink, RuleBeginning
from mirrorfleet.syncing import making as syncing_making
from mirrorfleet.syncing.changes import ChangeKind, Done
from mirrorfleet.syncing.fleet import FRESH_S, FleetSync
from mirrorfleet.syncing.settings import SyncSettings
from mirrorfleet.syncing.side import Side
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching import target
from mirrorfleet.watching.source import SourceWatch
from mirrorfleet.watching.target import TargetWatch
from tests.fakes.clock import HandClock, NoDice
from tests.unit.copying import making
from tests.unit.planning.samples import CLAIM, EAST
from tests.unit.policy.test_crossing import an_acl
from tests.unit.syncing.test_making import Broker, creating

ESTATE = """
estate: e
clusters:
  east: {bootstrap: "h:1"}
  north: {bootstrap: "h:2"}
  west: {bootstrap: "h:3"}
links:
  - {from: east, to: west, slots: 2, rules: [{name: all, topics: [a]}]}
  - {from: north, to: west, slots: 3, rules: [{name: all, topics: [b]}]}
"""
TWO_TARGETS = ESTATE + "  - {from: west, to: north, rules: [{name: all, topics: [c]}]}\n"


class Target(Store):
    """A catalog that refuses what a test wants refused."""

    refuses = ""

    async def ensure_topics(self, slots: int) -> None:
        self._answer("topics")

    async def check_made(self) -> None:
        self._answer("look")

    async def publish(
        self, entries: Iterable[CatalogEntry], forgotten: Iterable[CatalogAcl] = ()
    ) -> None:
        self._answer("catalog")
        for entry in entries:
            self.book.learn(entry)

    def _answer(self, what: str) -> None:
        if self.refuses == what:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, what)


@pytest.fixture
def fleet() -> FleetSync:
    estate = parse_estate(ESTATE, "e.yaml", directory=Path())
    west, clock = ClusterAlias("west"), HandClock()
    made = FleetSync(estate, west, SyncSettings(), clock, NoDice())
    made.store = Target(made.target, estate.fleet_of(west), clock)
    for side in made.sides:
        cluster = SimpleNamespace(cluster_id=ClusterId(f"{side.link.source}-ID"))
        side.cluster = cast("Cluster", cluster)
    return made


def refuse(fleet: FleetSync, what: str) -> None:
    cast("Target", fleet.store).refuses = what


async def refused(fleet: FleetSync, side: Side, what: str) -> None:
    refuse(fleet, what)
    with pytest.raises(BrokerError):
        await fleet.introduce(side, write=True)
    refuse(fleet, "")


@pytest.mark.parametrize("what", ["topics", "look", "catalog"])
async def test_a_link_whose_introduction_fails_is_introduced_again(
    fleet: FleetSync, what: str
) -> None:
    east, _ = fleet.sides
    await refused(fleet, east, what)
    known_after_failure = east.known

    await fleet.introduce(east, write=True)

    assert (known_after_failure, east.known) == (False, True)
    assert [each.slots for each in fleet.store.book.links.values()] == [(0, 1)]


async def test_a_catalog_that_is_made_after_one_was_deleted_has_each_link_with_its_slots(
    fleet: FleetSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken() -> None:
        pass

    monkeypatch.setattr(fleet.store._fenced, "take", taken)
    east, north = fleet.sides
    for side in (east, north):
        await fleet.introduce(side, write=True)
    before = fleet.store.book.links

    fleet.begin_anew()
    await fleet.store.take()
    written: list[CatalogEntry] = []
    monkeypatch.setattr(fleet.store.book, "learn", written.append)
    for side in (north, east):
        await fleet.introduce(side, write=True)

    assert written == [before[side.cluster.cluster_id] for side in (north, east)]


async def test_slots_of_a_link_that_may_be_half_written_are_its_own(fleet: FleetSync) -> None:
    east, north = fleet.sides
    await refused(fleet, east, "catalog")

    await fleet.introduce(north, write=True)
    await fleet.introduce(east, write=True)

    assert (east.slots, north.slots) == ((0, 1), (2, 3, 4))


async def test_links_that_are_introduced_together_have_slots_of_their_own(
    fleet: FleetSync,
) -> None:
    entries = [fleet.give_slots(side) for side in fleet.sides]

    assert [entry.slots for entry in entries if entry is not None] == [(0, 1), (2, 3, 4)]


async def test_slots_that_another_process_gave_away_since_are_not_used(fleet: FleetSync) -> None:
    east, north = fleet.sides
    await refused(fleet, east, "catalog")
    fleet.store.book.learn(
        CatalogLink(
            link=north.link,
            source_cluster=north.cluster.cluster_id,
            target_cluster=fleet.target.cluster_id,
            slots=(SlotNumber(0),),
        )
    )

    await fleet.introduce(east, write=True)

    assert east.slots == (1, 2)


async def test_what_the_rules_of_a_link_began_with_stays_when_it_gets_more_slots(
    fleet: FleetSync,
) -> None:
    east, _ = fleet.sides
    await fleet.introduce(east, write=True)
    book, cluster = fleet.store.book, east.cluster.cluster_id
    fresh = book.links[cluster]
    known = replace(fresh, begun=(RuleBeginning("all", frozenset()),))
    book.learn(known)
    east.wanted_slots = 3

    await fleet.introduce(east, write=True)

    assert fresh.begun == ()
    assert book.links[cluster] == replace(known, slots=east.slots)
    assert len(east.slots) == 3


async def test_what_a_rule_began_with_is_written_before_what_follows_from_it(
    fleet: FleetSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, _ = fleet.sides
    await fleet.introduce(east, write=True)
    written: list[CatalogEntry] = []
    monkeypatch.setattr(fleet.store.book, "learn", written.append)
    begun, first = fleet.store.book.links[east.cluster.cluster_id], making.entry()

    await fleet.publish(east, Plan(begun=begun, publish=(first,)))

    assert written == [begun, first]


async def test_a_link_that_nothing_may_be_written_for_is_known_and_not_in_the_catalog(
    fleet: FleetSync,
) -> None:
    east, _ = fleet.sides
    refuse(fleet, "catalog")

    await fleet.introduce(east, write=False)

    assert east.known
    assert not fleet.store.book.links


async def test_two_sources_that_are_one_cluster_are_refused_whichever_is_asked_for(
    fleet: FleetSync,
) -> None:
    east, north = fleet.sides
    east.source_cluster = north.source_cluster = ClusterId("ONE-ID")

    for side in (east, north):
        with pytest.raises(RefusedError, match=r"are the same cluster \(cluster.id ONE-ID"):
            fleet.check(side)


@pytest.mark.parametrize(
    ("catalog", "refused"), [("north", True), ("west", False), ("of-strangers", False)]
)
async def test_a_target_with_the_catalog_of_another_fleet_of_the_estate_is_refused(
    monkeypatch: pytest.MonkeyPatch, *, catalog: str, refused: bool
) -> None:
    there = f"__mirrorfleet.{catalog}.catalog"
    partition = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)

    async def metadata(_: Cluster, topics: tuple[str, ...]) -> SimpleNamespace:
        absent, none = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE
        found = {
            name: TopicMeta(name, NO_TOPIC_ID, none, False, {0: partition})
            if name == there
            else TopicMeta(name, NO_TOPIC_ID, absent, False, {})
            for name in topics
        }
        return SimpleNamespace(topics=found)

    monkeypatch.setattr(Cluster, "metadata", metadata)
    estate = parse_estate(TWO_TARGETS, "e.yaml", directory=Path())
    fleet = FleetSync(estate, ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())

    if not refused:
        await fleet.check_alone()
        return
    with pytest.raises(RefusedError, match="'west' and 'north' seem to be the same cluster"):
        await fleet.check_alone()


async def test_what_was_made_before_the_target_fell_silent_is_told_and_remembered(
    fleet: FleetSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, _ = fleet.sides
    binding = an_acl("ALLOW User:app READ TOPIC LITERAL a")
    forgotten: list[str] = []
    due: list[None] = []
    told: list[Done] = []
    taken_back: list[CatalogAcl] = []

    async def removes(_: Cluster, bindings: list[AclBinding], *, deadline_s: float) -> object:
        return dict.fromkeys(bindings)

    async def silent(*_: object, deadline_s: float) -> object:
        raise DeadlineError(f"no answer in {deadline_s} s")

    async def publish(_: object, forgotten: Iterable[CatalogAcl] = ()) -> None:
        taken_back.extend(forgotten)

    monkeypatch.setattr(syncing_making, "delete_acls", removes)
    monkeypatch.setattr(syncing_making, "create_topics", Broker().create_topics)
    monkeypatch.setattr(syncing_making, "create_partitions", silent)
    monkeypatch.setattr(TargetWatch, "forget", lambda _, topics: forgotten.extend(topics))
    monkeypatch.setattr(fleet.store, "publish", publish)
    monkeypatch.setattr(east.acls, "forget", lambda: due.append(None))
    step = replace(
        creating(CLAIM),
        grow=(Growth(CLAIM, now=1, partitions=2),),
        acls=(AclEdit(AclStep.REMOVE, binding),),
    )

    with pytest.raises(DeadlineError):
        await fleet.make(east, step, told.append)

    kinds = [each.change.kind for each in told]
    assert kinds == [ChangeKind.ACL_REMOVED, ChangeKind.CREATED]
    assert forgotten == [CLAIM.target_topic]
    assert taken_back == [CatalogAcl(east.cluster.cluster_id, binding)]
    assert due


async def test_a_target_that_calls_a_new_topic_invalid_is_asked_for_its_names_with_the_next_look(
    fleet: FleetSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been upgraded, and have forgotten some: `sync` is not restarted for that."""
    east, _ = fleet.sides
    broker, asked = Broker(), list[str]()
    broker.refuses[CLAIM.target_topic] = ErrorCode.INVALID_CONFIG

    async def default_configs(_: Cluster, name: str, **__: object) -> dict[str, str]:
        asked.append(name)
        return {}

    async def metadata(_: Cluster, __: None) -> Metadata:
        return Metadata(ClusterId("WEST-ID"), 1, {}, {})

    monkeypatch.setattr(syncing_making, "create_topics", broker.create_topics)
    monkeypatch.setattr(target, "default_configs", default_configs)
    monkeypatch.setattr(Cluster, "metadata", metadata)
    await fleet.learn_defaults()
    await fleet._targets.look(east.link, [], [])

    await fleet.make(east, creating(CLAIM))
    asked_before = len(asked)
    await fleet._targets.look(east.link, [], [])

    assert (asked_before, len(asked)) == (1, 2)


def test_who_begins_anew_has_no_claims_of_looks_before(fleet: FleetSync) -> None:
    for side in fleet.sides:
        side.claims = (CLAIM,)

    fleet.begin_anew()

    assert [side.claims for side in fleet.sides] == [(), ()]


@pytest.mark.parametrize(("confirm_s", "good_s"), [(0.7, FRESH_S), (10.0, 10.0)])
async def test_a_source_is_looked_at_again_when_a_plan_needs_it_and_no_topic_confirmed_too_early(
    monkeypatch: pytest.MonkeyPatch, confirm_s: float, good_s: float
) -> None:
    async def look(_: SourceWatch) -> SourceView:
        clock.seconds += 60  # however long it takes itself
        return SourceView(cluster=EAST, topics={})

    monkeypatch.setattr(SourceWatch, "look", look)
    estate = parse_estate(ESTATE, "e.yaml", directory=Path())
    settings, clock = SyncSettings(confirm_s=confirm_s), HandClock()
    fleet = FleetSync(estate, ClusterAlias("west"), settings, clock, NoDice())
    east, _ = fleet.sides
    first = await fleet.look(east)

    clock.seconds += good_s - 0.5
    assert await fleet.renewed(east) is first
    clock.seconds += 0.5
    second = await fleet.renewed(east)
    assert second is not first
    assert await fleet.renewed(east) is second
