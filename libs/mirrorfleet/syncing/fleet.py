"""A fleet's target and its links: opened, looked at, planned, changed. Nothing runs by itself.

    open:   target, sources -> are they what they were? -> control topics, catalog
    a look: source -> (target -> plan -> publish what exists -> change the target) until in step

Links share the target, the catalog and the claims on target topics: callers plan for one link at a
time, and make what follows before they plan for another one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import all_flows
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.book import check_link
from mirrorfleet.planning.plan import AclsView, LinkFacts, Plan, plan
from mirrorfleet.planning.slot_load import slots_of_link
from mirrorfleet.planning.topics import Chosen, choose
from mirrorfleet.policy.flows import AclPolicy
from mirrorfleet.records.catalog import CatalogAcl, CatalogLink, CatalogState
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.syncing.anew import AnewRequests
from mirrorfleet.syncing.changes import ChangeKind, Done
from mirrorfleet.syncing.making import TargetChanges
from mirrorfleet.syncing.retiring import Retired, retired
from mirrorfleet.syncing.side import CLIENT, Side, a_side
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching.configs import is_there
from mirrorfleet.watching.target import TargetWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.access import AclBinding
    from mirrorfleet.core.ids import SlotNumber
    from mirrorfleet.core.ports import Clock, Dice
    from mirrorfleet.planning.book import CatalogBook
    from mirrorfleet.planning.observed import SourceView
    from mirrorfleet.syncing.settings import SyncSettings

FRESH_S: Final = 5.0
"""What a look at a source showed is planned by for so long: meanwhile a topic may be deleted there,
or made again with another id."""
BACK_S: Final = 30.0
"""No broker that is of any use lags for so long: what all looks show meanwhile is so."""


class Seen(NamedTuple):
    """One look at a link, and what follows from it."""

    source: SourceView
    chosen: Chosen
    plan: Plan


class FleetSync:
    """All links into one target."""

    def __init__(
        self,
        estate: Estate,
        target: ClusterAlias,
        settings: SyncSettings,
        clock: Clock,
        dice: Dice,
    ) -> None:
        self._fleet = estate.fleet_of(target)
        self._rivals = _rivals(estate, target)
        self._estate = all_flows(estate)
        self.settings, self.clock = settings, clock
        self.target = Cluster(cluster_settings(estate, target, CLIENT))
        self.store = Store(self.target, self._fleet, clock)
        self._anew = AnewRequests(self.target, self._fleet, clock)
        self._targets = TargetWatch(
            self.target, configs_a_look=settings.configs_a_look, answer_s=settings.change_s
        )
        doubt = self._targets.doubt_defaults
        self.changes = TargetChanges(self.target, settings, clock, dice, doubt)
        links = estate.links_into(target)
        self.sides = [a_side(estate, each, self.target, settings, clock) for each in links]
        self._looked: dict[Link, tuple[float, SourceView]] = {}

    async def close(self) -> None:
        """Close every connection."""
        self.store.close()
        self._anew.close()
        for side in self.sides:
            await side.cluster.close()
        await self.target.close()

    # -- start

    def begin_anew(self) -> None:
        """Know nothing of the links' clusters: another process may have acted since the last look.

        Half of what is remembered, with the other half read again, would be taken for a change.
        """
        self._targets.begin_anew()
        for side in self.sides:
            side.watch.begin_anew()
            side.acls.forget()
            side.claims, side.back, side.unwanted = (), {}, {}

    @property
    def deaf(self) -> str:
        """Why requests of workers cannot be read; "" while they are."""
        return self._anew.trouble

    @property
    def requests_topic(self) -> str:
        """Where workers ask."""
        return self._anew.topic

    def wait_for_requests(self, seconds: float) -> None:
        """How long a plan waits for requests of workers; it is told of in `deaf` what is late."""
        self._anew.deadline_s = seconds

    async def learn_defaults(self) -> None:
        """Learn what a new topic gets on the target. Raises: MirrorfleetError: no answer."""
        await self._targets.learn_defaults(control_topic(self._fleet, "probe"))

    async def open_source(self, side: Side) -> None:
        """Reach a link's source. Raises: MirrorfleetError."""
        await side.cluster.open()
        side.source_cluster = side.cluster.cluster_id

    async def refuse(self, side: Side) -> None:
        """A source that `check` refused: what answers at its address next may be another cluster.

        What it was counts in checks of the others until then: of two that are one neither is right.
        """
        side.known = False
        await side.cluster.forget()

    def check(self, side: Side) -> None:
        """Raises: RefusedError when the link's aliases do not mean what they meant."""
        if side.source_cluster is not None:
            others = {
                each.link.source: each.source_cluster
                for each in self.sides
                if each is not side and each.source_cluster is not None
            }
            source, target = side.source_cluster, self.target.cluster_id
            check_link(self.store.book, side.link, source, target, others)

    async def check_alone(self) -> None:
        """See that no other fleet of the estate has this cluster as its target, too.

        Claims on target topics are kept in a catalog a fleet: two would take the same ones, and
        each record would be there twice. Asked after our own catalog was made and before anything
        is published: of two that begin at once at least one sees the other.

        Raises: RefusedError; MirrorfleetError: the target does not answer.
        """
        if not self._rivals:
            return
        found = (await self.target.metadata(tuple(self._rivals))).topics
        for catalog, alias in self._rivals.items():
            if catalog in found and is_there(found[catalog]):
                mine = self.target.settings.alias
                raise RefusedError(
                    f"{mine!r} and {alias!r} seem to be the same cluster (cluster.id"
                    f" {self.target.cluster_id}): the fleet of {alias!r} has its catalog here.",
                    hint=f"Give the cluster one name; if {alias!r} is another one now, delete the"
                    f" topic {catalog} on {mine}.",
                )

    def give_slots(self, side: Side) -> CatalogLink | None:
        """Decide on the link's slots; its record, when the catalog has another one or none.

        What was given to a link and is not in the catalog yet is given to no other one, and to the
        same one again: nobody knows what of a write that failed is there.
        """
        source, book = side.cluster.cluster_id, self.store.book
        known = book.links.get(source)
        elsewhere = {*book.slots_elsewhere(source), *self._being_given(side)}
        have = known.slots if known else side.slots
        if known is None and not elsewhere.isdisjoint(have):
            have = ()  # another process gave them away since
        side.slots = slots_of_link(have, side.wanted_slots, elsewhere)
        entry = CatalogLink(
            link=side.link,
            source_cluster=source,
            target_cluster=self.target.cluster_id,
            slots=side.slots,
            begun=known.begun if known else (),
        )
        return entry if entry != known else None

    def _being_given(self, side: Side) -> set[SlotNumber]:
        """Slots of the other links whose introduction is not complete."""
        others = (each for each in self.sides if each is not side and not each.known)
        return {slot for each in others for slot in each.slots}

    async def introduce(self, side: Side, *, write: bool) -> None:
        """Give a link its slots, the control topics room for them, and both a record.

        The link is known only then. Raises: OutdatedError: the catalog is not what was read;
        MirrorfleetError; all of it may be done again.
        """
        entry = self.give_slots(side)
        if write:
            await self.store.ensure_topics(self.slots)
            await self.store.check_made()
            if entry is not None:
                await self.store.publish([entry])
        side.known = True

    @property
    def slots(self) -> int:
        """How many slots the control topics need room for."""
        mine = [slot for side in self.sides for slot in side.slots]
        return max([self.store.book.highest_slot(), *mine]) + 1

    def retired(self, unmet: Collection[Side]) -> dict[Link, Retired]:
        """What links copied that are no longer in the estate; `unmet` links may be one of those."""
        return retired(self.store.book, {side.link for side in self.sides}, unmet)

    # -- a look

    async def look(self, side: Side) -> SourceView:
        """What the source has now, its ACLs too. Raises: MirrorfleetError."""
        found = await side.watch.look()
        if side.flow.acls is not AclPolicy.IGNORE:
            await side.acls.look_at_source(found)
        # its end counts: a look that takes longer than its view is good for would never do
        self._looked[side.link] = self.clock.monotonic(), found
        return found

    async def renewed(self, side: Side) -> SourceView:
        """The last view of the source, or what another look shows when that is too old to plan by.

        A look confirms the topics of the one before it, so there are at least `confirm_s` between.

        Raises: MirrorfleetError.
        """
        good_s = max(FRESH_S, self.settings.confirm_s)
        looked_at, found = self._looked[side.link]
        if self.clock.monotonic() < looked_at + good_s:
            return found
        return await self.look(side)

    async def renewed_soon(self, side: Side, within_s: float) -> SourceView | None:
        """As `renewed`, for who has others wait for him; None when it takes longer than that."""
        try:
            async with asyncio.timeout(within_s):
                return await self.renewed(side)
        except TimeoutError:
            return None

    async def plan(self, side: Side, source: SourceView) -> Seen:
        """Look at the target and say what must change there.

        Raises: RefusedError: as `check_alone`; MirrorfleetError.
        """
        await self.check_alone()
        book, now = self.store.book, self.clock.monotonic()
        others = [claim for each in self.sides if each is not side for claim in each.claims]
        chosen = choose(
            side.flow,
            source,
            self.target.cluster_id,
            [*book.claims(), *others],
            estate=self._estate,
            ids=self._ids(),
        )
        mine = _copied(book, source.cluster)
        new = [c for c in chosen.claims if (c.source_topic, c.target_topic) not in mine]
        target = await self._targets.look(
            side.link,
            (claim.target_topic for claim in chosen.claims),
            (claim.target_topic for claim in new),
        )
        read_at = side.acls.read_at  # plans between two readings are one look at the ACLs
        view = LinkFacts(
            flow=side.flow,
            source=source,
            target=target,
            claims=chosen.claims,
            terms=side.terms,
            book=book,
            slots=side.slots,
            refused=chosen.held,
            acls=await self._acls(side, source),
            anew=await self._anew.open(),
            unaltered=self.changes.unaltered(side.link),
            returned=frozenset(topic for topic, at in side.back.items() if at <= now - BACK_S),
            unwanted=frozenset(a for a, at in side.unwanted.items() if at <= read_at - BACK_S),
        )
        planned = plan(view)
        side.claims = chosen.claims  # at once: the next to plan may be another link
        side.back = {topic: side.back.get(topic, now) for topic in planned.back}
        side.unwanted = {acl: side.unwanted.get(acl, read_at) for acl in planned.unwanted}
        return Seen(source, chosen, planned)

    async def publish(self, side: Side, planned: Plan) -> None:
        """Write what is copied now, and forget ACLs that are gone. Raises: MirrorfleetError."""
        gone = [each for each in planned.acls if each.step is AclStep.FORGET]
        also = [each for each in planned.acls if each.step is AclStep.NOTE]
        begun = [planned.begun] if planned.begun else []
        await self.store.publish(
            [*begun, *planned.publish, *_entries(side, also)], _entries(side, gone)
        )

    async def make(
        self, side: Side, step: Plan, tell: Callable[[Done], None] = lambda _: None
    ) -> None:
        """Change the target; `tell` hears of each change once it is made, whatever fails after it.

        An ACL is remembered before it is added, and forgotten after it is removed: a crash in
        between leaves one too many in the catalog, never one that nobody would take back. One that
        was surely not added is forgotten again: an operator may add it, and it is his then.

        Raises: MirrorfleetError: it does not answer at all.
        """
        source = side.cluster.cluster_id
        known = self.store.book.acls_of(source)
        adding = [each for each in step.acls if each.step is AclStep.ADD]
        new = [each for each in adding if known.get(each.binding) != each.origins]
        fresh = {each.binding for each in new} - known.keys()
        await self.store.publish(_entries(side, new))
        if step.acls:
            side.acls.forget()
        async for made in self.changes.make(side.link, step):
            for each in made:
                tell(each)
            changed = [each.change for each in made]
            self._targets.forget({change.target for change in changed if change.topic})
            gone = [one.acl for one in changed if one.kind is ChangeKind.ACL_REMOVED and one.acl]
            gone += fresh & self.changes.vain
            fresh -= self.changes.vain
            await self.store.publish((), [CatalogAcl(source, each) for each in gone])

    async def _acls(self, side: Side, source: SourceView) -> AclsView | None:
        if side.flow.acls is AclPolicy.IGNORE:
            return None
        seen = await side.acls.look(source.acl_ways)
        seen = replace(seen, shared=self._acls_of_others(side))
        side.acl_trouble = seen.trouble
        ends = (side.cluster, self.target)
        us = (cluster.settings.security.acl_principal for cluster in ends)
        # none is unknown: who does not say them all is refused when the estate is read
        return AclsView(seen=seen, us=frozenset(each for each in us if each is not None))

    def _acls_of_others(self, side: Side) -> frozenset[AclBinding]:
        """What is also there for other sources, if anybody would ever take it back."""
        following = {
            each.link
            for each in self.sides
            if each is not side and each.flow.acls is not AclPolicy.IGNORE
        }
        book = self.store.book
        return frozenset(
            binding
            for cluster, entry in book.links.items()
            if entry.link in following
            for binding in book.acls_of(cluster)
        )

    def _ids(self) -> dict[ClusterAlias, ClusterId]:
        found = {
            side.link.source: side.source_cluster
            for side in self.sides
            if side.source_cluster is not None
        }
        return {**found, self.target.settings.alias: self.target.cluster_id}


def _copied(book: CatalogBook, source: ClusterId) -> set[tuple[str, str]]:
    """Source and target topic of what is copied now."""
    return {
        (entry.source_topic, entry.target_topic)
        for entry in book.of_source(source)
        if entry.state is not CatalogState.REMOVED
    }


def _entries(side: Side, edits: Iterable[AclEdit]) -> list[CatalogAcl]:
    source = side.cluster.cluster_id
    return [CatalogAcl(source, each.binding, each.origins) for each in edits]


def _rivals(estate: Estate, target: ClusterAlias) -> dict[str, ClusterAlias]:
    """The catalogs of the estate's other fleets, each with its target: none should be on ours."""
    fleets = {alias: estate.fleet_of(alias) for alias in estate.targets()}
    return {
        control_topic(fleet, ControlKind.CATALOG): alias
        for alias, fleet in fleets.items()
        if alias != target and fleet != fleets.get(target)
    }
