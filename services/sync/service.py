"""The sync service: one loop a link that looks, plans, changes the target, and publishes.

    start:  target, sources -> are they what they were? -> control topics, catalog -> links
    a look: source -> (target -> plan -> publish what exists -> change topics) until in step

Links share the target, the catalog and the claims on target topics, so that part is done by one
link at a time. Nothing is derived from earlier looks but what a reader is told.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import all_flows, flow_of
from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.book import check_link
from mirrorfleet.planning.plan import LinkView, Plan, plan
from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.planning.slot_load import slots_of_link
from mirrorfleet.planning.topics import Chosen, choose
from mirrorfleet.policy.naming import is_internal_topic
from mirrorfleet.records.catalog import CatalogLink, CatalogState
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.lifecycle import describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.standby.leading import Leadership
from mirrorfleet.watching.source import SourceWatch
from mirrorfleet.watching.target import TargetWatch
from services.sync import settings
from services.sync.changes import Change, ChangeKind, Done, TopicChanges
from services.sync.report import LinkReport, event_kind, register_gauges
from services.sync.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.config.model import EstateLink
    from mirrorfleet.planning.observed import SourceView
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

CLIENT: Final = "mirrorfleet-sync"
STARTING: Final = "catalog"
_TROUBLE_S: Final = 5.0
"""Pause after a look that failed."""

_KINDS: Final = {
    ChangeKind.CREATED: EventKind.TOPIC_CREATED,
    ChangeKind.GROWN: EventKind.PARTITIONS_ADDED,
    ChangeKind.ALTERED: EventKind.CONFIG_CHANGED,
}
_log = logger(__name__)


def build(context: Context) -> SyncService:
    """The service, configured and not connected."""
    return SyncService(context)


@dataclass(slots=True)
class _Side:
    """A link at work. `known`: its source was reached and is what it was."""

    flow: Flow
    terms: Mapping[str, RuleTerms]
    wanted_slots: int
    cluster: Cluster
    watch: SourceWatch
    report: LinkReport
    known: bool = False

    @property
    def link(self) -> Link:
        return self.flow.link


class SyncService:
    """One instance; another one of the same fleet does no harm."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = settings.parse(context.settings)
        estate, target = context.estate, context.target
        self._target = Cluster(cluster_settings(estate, target, CLIENT))
        self._targets = TargetWatch(
            self._target,
            configs_a_look=self._settings.configs_a_look,
            answer_s=self._settings.change_s,
        )
        self._store = Store(self._target, context.fleet, context.clock)
        self._changes = TopicChanges(self._target, self._settings, context.clock, context.dice)
        self._estate = all_flows(estate)
        self._sides = [self._side(entry) for entry in estate.links_into(target)]
        self._one_at_a_time = asyncio.Lock()
        register_gauges(context.metrics, context.clock, self.reports)

    async def serve(self, stop: Stop) -> None:
        """Keep the fleet in step until `stop`; a look that is under way is simply ended.

        Raises:
            MirrorfleetError: the target, or every source, cannot be reached or is refused: nothing
                was written.
        """
        try:
            await self._target.open()
            await Leadership(self._context, self._target, "sync").run(self._work, stop)
        finally:
            self._store.close()
            for side in self._sides:
                await side.cluster.close()
            await self._target.close()

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        book = self._store.book
        now = self._context.clock.monotonic()
        return {
            "apply": self._settings.apply,
            "generation": book.config.generation if book.config else 0,
            "partitions": len(book.partitions),
            "control_replication_factor": self._store.replication_factor,
            "durability": self._store.durability,
            "links": [report.status(now) for report in self.reports],
        }

    @property
    def reports(self) -> list[LinkReport]:
        """The last look at each link."""
        return [side.report for side in self._sides]

    # -- start

    def _side(self, entry: EstateLink) -> _Side:
        estate = self._context.estate
        flow = flow_of(estate, entry)
        cluster = Cluster(cluster_settings(estate, entry.source, CLIENT))
        watch = SourceWatch(
            cluster,
            lambda topic: _wants(flow, topic),
            configs_a_look=self._settings.configs_a_look,
        )
        terms = settings.terms_of(entry, estate.cluster(self._context.target))
        return _Side(flow, terms, entry.slots, cluster, watch, LinkReport(flow.link))

    async def _work(self) -> None:
        self._context.health.hold(STARTING, "not read yet")
        await self._open_sources()
        await self._store.refresh()
        for side in self._sides:
            self._check(side)
        for side in self._sides:
            if side.report.source_cluster is not None:
                await self._introduce(side)
        await self._retire_links()
        self._context.health.release(STARTING)
        async with asyncio.TaskGroup() as group:
            for side in self._sides:
                group.create_task(self._follow(side), name=f"link:{side.link}")

    async def _open_sources(self) -> None:
        """Reach every source; one that is away is tried again later unless all are.

        Raises:
            MirrorfleetError: no source can be reached; RefusedError: one is the target itself.
        """
        errors: list[MirrorfleetError] = []
        for side in self._sides:
            try:
                await side.cluster.open()
            except MirrorfleetError as error:
                errors.append(error)
                self._failed(side, error)
            else:
                side.report.source_cluster = side.cluster.cluster_id
        if len(errors) == len(self._sides):
            raise errors[0]
        for side in self._sides:
            self._check(side)

    def _check(self, side: _Side) -> None:
        if side.report.source_cluster is not None:
            source = side.report.source_cluster
            check_link(self._store.book, side.link, source, self._target.cluster_id)

    async def _introduce(self, side: _Side) -> None:
        """Give a link its slots, the control topics room for them, and both a record."""
        source = side.cluster.cluster_id
        book = self._store.book
        known = book.links.get(source)
        slots = slots_of_link(
            known.slots if known else (), side.wanted_slots, book.slots_elsewhere(source)
        )
        side.report.slots = slots
        side.known = True
        if self._manual:
            return
        await self._store.ensure_topics(max(book.highest_slot(), *slots) + 1)
        await self._targets.learn_defaults(control_topic(self._context.fleet, ControlKind.SLOTS))
        entry = CatalogLink(
            link=side.link,
            source_cluster=source,
            target_cluster=self._target.cluster_id,
            slots=slots,
        )
        if known != entry:
            await self._store.publish([entry])

    async def _retire_links(self) -> None:
        """Mark what links copied that are no longer in the estate."""
        links = {side.link for side in self._sides}
        gone = [
            entry
            for entry in self._store.book.partitions.values()
            if entry.link not in links and entry.state is not CatalogState.REMOVED
        ]
        if gone and not self._manual:
            await self._store.publish(replace(one, state=CatalogState.REMOVED) for one in gone)
            for link in {entry.link for entry in gone}:
                self._tell(EventKind.LINK_REMOVED, link, None, "it is not in the estate")

    # -- a link

    async def _follow(self, side: _Side) -> None:
        clock = self._context.clock
        while True:
            started = clock.monotonic()
            try:
                if not side.known:
                    await self._meet(side)
                pause = await self._look(side)
            except (MirrorfleetError, ExceptionGroup) as error:
                if not is_ours(error):
                    raise
                self._failed(side, error)
                pause = max(_TROUBLE_S, self._settings.period_s)
            else:
                self._context.health.release(f"link {side.link}")
                side.report.trouble = ""
                side.report.looked_at = clock.monotonic()
                side.report.took_s = side.report.looked_at - started
                cycle = self._context.metrics.histogram(names.SYNC_CYCLE, str(side.link))
                cycle.observe(side.report.took_s)
            await self._store.flush()
            await asyncio.sleep(pause)

    async def _meet(self, side: _Side) -> None:
        """A source that was away at the start."""
        await side.cluster.open()
        side.report.source_cluster = side.cluster.cluster_id
        async with self._one_at_a_time:
            await self._store.refresh()
            self._check(side)
            await self._introduce(side)

    async def _look(self, side: _Side) -> float:
        """Look at both ends and bring the target in step; the pause until the next look."""
        source = await side.watch.look()
        async with self._one_at_a_time:
            await self._store.refresh()
            tried: set[Change] = set()
            while True:
                chosen, planned = await self._plan(side, source)
                if self._manual:
                    step = Plan()
                else:
                    await self._publish(side, planned)
                    step = self._changes.next_step(planned, tried)
                if not step.changes_topics:
                    break
                for done in await self._changes.make(step):
                    self._made(side, done)
            self._changes.forget(side.link, planned)
            self._note(side, chosen, planned)
        unsettled = any(change.kind is ChangeKind.CREATED for change in tried) and planned.pending
        if side.watch.unconfirmed or unsettled:
            return self._settings.confirm_s
        return self._settings.period_s

    async def _plan(self, side: _Side, source: SourceView) -> tuple[Chosen, Plan]:
        book = self._store.book
        others = [claim for each in self._sides if each is not side for claim in each.report.claims]
        chosen = choose(
            side.flow,
            source,
            self._target.cluster_id,
            [*book.claims(), *others],
            estate=self._estate,
            ids=self._ids(),
        )
        mine = {
            (entry.source_topic, entry.target_topic) for entry in book.of_source(source.cluster)
        }
        new = [c for c in chosen.claims if (c.source_topic, c.target_topic) not in mine]
        target = await self._targets.look(
            (claim.target_topic for claim in chosen.claims), (claim.target_topic for claim in new)
        )
        view = LinkView(
            link=side.link,
            source=source,
            target=target,
            claims=chosen.claims,
            terms=side.terms,
            book=book,
            slots=side.report.slots,
        )
        return chosen, plan(view)

    def _ids(self) -> dict[ClusterAlias, ClusterId]:
        found = {
            side.link.source: side.report.source_cluster
            for side in self._sides
            if side.report.source_cluster is not None
        }
        return {**found, self._context.target: self._target.cluster_id}

    async def _publish(self, side: _Side, planned: Plan) -> None:
        if not planned.publish:
            return
        await self._store.publish(planned.publish)
        count = len(planned.publish)
        self._context.metrics.counter(names.SYNC_CHANGES, str(side.link), "published").add(count)
        removed = {e.source_topic for e in planned.publish if e.state is CatalogState.REMOVED}
        for topic in sorted(removed):
            self._tell(EventKind.TOPIC_REMOVED, side.link, topic, "no rule takes it as it is now")
        _log.info("catalog published", extra=fields(link=str(side.link), count=count))

    # -- what is told

    @property
    def _manual(self) -> bool:
        return self._settings.apply is settings.Apply.MANUAL

    def _made(self, side: _Side, done: Done) -> None:
        claim, kind = done.change
        self._targets.configs.forget(claim.target_topic)
        self._context.metrics.counter(names.SYNC_CHANGES, str(side.link), kind).add()
        self._tell(_KINDS[kind], side.link, claim.source_topic, done.detail)

    def _note(self, side: _Side, chosen: Chosen, planned: Plan) -> None:
        report = side.report
        report.claims = chosen.claims
        report.skipped = chosen.skipped
        report.pending = planned.pending
        report.entries = len(self._store.book.slots_taken(side.cluster.cluster_id))
        held = [*chosen.held, *planned.held, *self._changes.held(side.link)]
        for each in report.news(held):
            self._tell(event_kind(each.reason), side.link, each.topic, each.detail, each.reason)

    def _failed(self, side: _Side, error: Exception) -> None:
        text = describe(error)
        if isinstance(error, RefusedError) and side.report.trouble != text:
            self._tell(EventKind.LINK_REFUSED, side.link, None, text)
        side.report.trouble = text
        self._context.health.hold(f"link {side.link}", text)
        _log.warning("a look failed", extra=fields(link=str(side.link), error=text))

    def _tell(
        self, kind: EventKind, link: Link, topic: str | None, detail: str, cause: str = ""
    ) -> None:
        _log.info("%s: %s", kind, detail, extra=fields(link=str(link), topic=topic or ""))
        self._store.tell(
            Event(
                kind=kind,
                time_ms=self._context.clock.now_ms(),
                writer=self._context.owner,
                detail=detail,
                cause=cause,
                link=link,
                topic=topic,
            )
        )


def _wants(flow: Flow, topic: str) -> bool:
    return not is_internal_topic(topic) and flow.wants(topic)
