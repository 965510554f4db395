"""An ACL is taken back when all looks have said so for longer than any broker lags, and is ours."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mirrorfleet.core.access import AclBinding, show
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.observed import SourceView
from mirrorfleet.planning.pending import Kind, PlannedChange
from mirrorfleet.records import catalog
from mirrorfleet.records.catalog import CatalogAcl, CatalogEntry, Removed
from mirrorfleet.syncing import making
from mirrorfleet.syncing import once as once_module
from mirrorfleet.syncing.changes import Change
from mirrorfleet.syncing.fleet import BACK_S, FRESH_S, FleetSync
from mirrorfleet.syncing.once import SETTLE_S, Once
from mirrorfleet.syncing.settings import SyncSettings
from mirrorfleet.syncing.shown import a_fleet
from mirrorfleet.syncing.side import Side
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching import acls
from tests.fakes.clock import HandClock, NoDice
from tests.unit.planning.samples import EAST
from tests.unit.policy.test_crossing import an_acl
from tests.unit.syncing.adopting import COPY, Clusters, an_estate, connect, opened

DENIED = an_acl("DENY User:z READ TOPIC LITERAL orders")
HERE = an_acl(f"DENY User:z READ TOPIC LITERAL {COPY}")


class Pair(Clusters):
    """Two clusters with authorizers; what a broker that lags says in their stead."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = None
        self.source_acls, self.target_acls = {DENIED}, set[AclBinding]()
        self.source_lags: set[AclBinding] | None = None
        self.target_lags: set[AclBinding] | None = None
        self.removed: list[AclBinding] = []
        self.says: ErrorCode | None = None
        """Of denials that are to be added."""

    async def describe(self, cluster: Cluster, **_: object) -> list[AclBinding]:
        if cluster.name == "east":
            return list(self.source_acls if self.source_lags is None else self.source_lags)
        return list(self.target_acls if self.target_lags is None else self.target_lags)

    async def create_acls(
        self, _: Cluster, bindings: list[AclBinding], *, deadline_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        found: dict[AclBinding, BrokerError | None] = dict.fromkeys(bindings)
        if self.says is not None and HERE in found:
            found[HERE] = BrokerError(self.says, "create")
        self.target_acls.update(each for each, error in found.items() if error is None)
        return found

    async def delete_acls(
        self, _: Cluster, bindings: list[AclBinding], *, deadline_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        self.target_acls.difference_update(bindings)
        self.removed += bindings
        return dict.fromkeys(bindings)


class World:
    """One link that a test looks at; the denial has crossed."""

    def __init__(self, clusters: Pair, settings: SyncSettings) -> None:
        self.clusters, self.clock = clusters, HandClock()
        west = ClusterAlias("west")
        self.fleet = FleetSync(an_estate("mirror"), west, settings, self.clock, NoDice())
        self.side = opened(self.fleet)

    async def look(self, after_s: float = 5.0) -> None:
        self.clock.seconds += after_s
        fleet, tried = self.fleet, set[Change]()
        source = await fleet.look(self.side)
        while True:
            planned = (await fleet.plan(self.side, source)).plan
            await fleet.publish(self.side, planned)
            step = fleet.changes.next_step(self.side.link, planned, tried)
            if not step.changes_target:
                return
            await fleet.make(self.side, step)

    async def looks(self, number: int) -> list[bool]:
        """So many, and whether the target has the denial after each."""
        there: list[bool] = []
        for _ in range(number):
            await self.look()
            there.append(HERE in self.clusters.target_acls)
        return there

    def remembers(self) -> bool:
        return HERE in self.fleet.store.book.acls_of(EAST)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Pair:
    async def publish(
        store: Store, entries: Iterable[CatalogEntry], forgotten: Iterable[CatalogAcl] = ()
    ) -> None:
        for entry in entries:
            store.book.learn(entry)
        for each in forgotten:
            store.book.learn(Removed(catalog.acl_key(each), None, each))

    made = Pair()
    connect(monkeypatch, made)
    monkeypatch.setattr(Store, "publish", publish)
    monkeypatch.setattr(acls, "describe_acls", made.describe)
    monkeypatch.setattr(making, "create_acls", made.create_acls)
    monkeypatch.setattr(making, "delete_acls", made.delete_acls)
    return made


async def crossed(clusters: Pair, settings: SyncSettings | None = None) -> World:
    world = World(clusters, settings or SyncSettings())
    await world.look()
    assert clusters.target_acls == {HERE}
    assert world.remembers()
    return world


async def test_a_denial_that_a_broker_that_lags_does_not_know_yet_is_never_away(
    clusters: Pair,
) -> None:
    world = await crossed(clusters)
    there: list[bool] = []
    for _ in range(10):
        clusters.source_lags = set()
        there += await world.looks(5)
        clusters.source_lags = None
        there += await world.looks(1)

    assert all(there)
    assert clusters.removed == []


async def test_an_acl_goes_when_all_looks_have_said_so_for_longer_than_any_broker_lags(
    clusters: Pair,
) -> None:
    world = await crossed(clusters)
    clusters.source_acls.clear()

    assert await world.looks(8) == [True] * 6 + [False] * 2
    assert clusters.removed == [HERE]
    assert not world.remembers()


async def test_what_the_target_does_not_show_yet_is_remembered_and_goes_when_it_does(
    clusters: Pair,
) -> None:
    world = await crossed(clusters)
    clusters.source_acls.clear()
    clusters.target_lags = set()
    await world.looks(2)
    remembered = world.remembers()
    clusters.target_lags = None
    await world.looks(5)

    assert remembered
    assert clusters.target_acls == set()
    assert not world.remembers()


async def test_what_somebody_else_removed_is_forgotten_when_no_broker_can_lag_any_more(
    clusters: Pair,
) -> None:
    world = await crossed(clusters)
    clusters.source_acls.clear()
    clusters.target_acls.clear()
    await world.looks(6)
    before = world.remembers()
    await world.look()

    assert (before, world.remembers(), clusters.removed) == (True, False, [])


async def test_who_takes_over_begins_to_count_anew(clusters: Pair) -> None:
    world = await crossed(clusters)
    clusters.source_acls.clear()
    await world.looks(6)

    world.fleet.begin_anew()

    assert await world.looks(7) == [True] * 6 + [False]


async def test_looks_that_share_a_reading_count_as_one(clusters: Pair) -> None:
    world = await crossed(clusters, SyncSettings(acls_period_s=BACK_S + 5))
    clusters.source_acls.clear()
    clusters.source_lags = {DENIED}
    await world.looks(1)
    clusters.source_lags = None

    assert await world.looks(14) == [True] * 13 + [False]  # read by the 7th, and the 14th


@pytest.mark.parametrize("wanted_again", [False, True])
async def test_what_was_agreed_to_is_taken_back_when_looks_of_apply_have_agreed_for_as_long(
    clusters: Pair, monkeypatch: pytest.MonkeyPatch, *, wanted_again: bool
) -> None:
    world = await crossed(clusters)
    clusters.source_acls.clear()
    world.clock.seconds += 5
    once, fleet, began = Once(world.fleet), world.fleet, world.clock.seconds
    agreed = (await once.preview()).changes

    async def renewed(side: Side) -> SourceView:
        world.clock.seconds += 5
        if wanted_again and world.clock.seconds > began + 20:
            clusters.source_acls.add(DENIED)
        return await fleet.look(side)

    monkeypatch.setattr(fleet, "renewed", renewed)
    monkeypatch.setattr(once_module, "_PAUSE_S", 0.0)
    outcome = await once.apply(agreed)

    line = PlannedChange(str(world.side.link), Kind.ACL_REMOVE, show(HERE))
    made, gone = ([], [line]) if wanted_again else ([line], [])
    assert line in agreed
    assert [each for each in outcome.made if each.kind is Kind.ACL_REMOVE] == made
    assert [each for each in outcome.gone if each.kind is Kind.ACL_REMOVE] == gone
    assert clusters.removed == ([] if wanted_again else [HERE])
    assert world.clock.seconds - began < BACK_S + SETTLE_S


REFUSED = (ErrorCode.POLICY_VIOLATION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
UNSURE = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("says", REFUSED, ids=lambda code: code.name)
async def test_what_an_operator_adds_by_hand_after_we_were_refused_is_his(
    clusters: Pair, says: ErrorCode
) -> None:
    world, clusters.says = World(clusters, SyncSettings()), says
    await world.looks(2)
    remembered = world.remembers()
    clusters.target_acls.add(HERE)
    await world.look()
    clusters.source_acls.clear()
    await world.looks(10)

    assert not remembered
    assert (clusters.target_acls, clusters.removed) == ({HERE}, [])


@pytest.mark.parametrize("says", UNSURE, ids=lambda code: code.name)
async def test_what_may_have_been_added_is_remembered(clusters: Pair, says: ErrorCode) -> None:
    world, clusters.says = World(clusters, SyncSettings()), says
    await world.look()

    assert world.remembers()


async def test_what_was_ours_before_it_was_refused_is_remembered(clusters: Pair) -> None:
    world = await crossed(clusters)
    clusters.target_acls.clear()
    clusters.says = ErrorCode.POLICY_VIOLATION
    await world.look()

    assert world.remembers()


async def test_what_is_added_in_the_end_is_remembered(clusters: Pair) -> None:
    world, clusters.says = World(clusters, SyncSettings()), ErrorCode.POLICY_VIOLATION
    await world.look()
    clusters.says = None
    await world.look()

    assert (clusters.target_acls, world.remembers()) == ({HERE}, True)


async def test_a_right_that_waits_for_a_denial_is_not_remembered(clusters: Pair) -> None:
    clusters.source_acls.add(an_acl("ALLOW User:* READ TOPIC LITERAL *"))
    world, clusters.says = World(clusters, SyncSettings()), ErrorCode.REQUEST_TIMED_OUT
    await world.look()
    waiting = set(world.fleet.store.book.acls_of(EAST))
    clusters.says = None
    await world.look()

    assert waiting == {HERE}
    assert set(world.fleet.store.book.acls_of(EAST)) == clusters.target_acls
    assert len(clusters.target_acls) == 2


@pytest.mark.parametrize(("asked", "read"), [(60, FRESH_S), (0.5, 0.5)])
def test_who_looks_once_waits_for_no_long_period_of_acls(asked: float, read: float) -> None:
    """Looks that share a reading are one, and `apply` ends before another one of each minute."""
    services = {"sync": {"acls_period_s": asked}}
    told = an_estate().model_copy(update={"services": services})

    assert a_fleet(told, "west").settings.acls_period_s == read
