"""The sync service: one loop a link that looks, plans, changes the target, and publishes.

    start:  target, sources -> are they what they were? -> control topics, catalog -> links
    a look: source -> (target -> plan -> publish what exists -> change the target) until in step

What a look is made of is `mirrorfleet.syncing`; here it goes on for ever, and is told. Links share
the target, so they take turns there, one for each step; events are written beside the looks.
Nothing is derived from earlier looks but what a reader is told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError, RefusedError
from mirrorfleet.kafka.together import all_of
from mirrorfleet.planning.pending import automatic, left_out
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.lifecycle import describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.reaching import reached
from mirrorfleet.standby.beginning import begun
from mirrorfleet.standby.leading import leadership
from mirrorfleet.syncing.changes import Change, ChangeKind, Done
from mirrorfleet.syncing.fleet import FleetSync, Seen
from mirrorfleet.syncing.making import ACLS
from mirrorfleet.syncing.retiring import still_copied
from services.sync import settings
from services.sync.report import LinkReport, change_kind, event_kind, register_gauges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.core.ids import Link
    from mirrorfleet.planning.observed import SourceView
    from mirrorfleet.planning.plan import Plan
    from mirrorfleet.policy.claims import Claim
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop
    from mirrorfleet.syncing.side import Side

STARTING: Final = "catalog"
EVENTS: Final = "events"
REQUESTS: Final = "requests"
_TAKE_OVER_S: Final = 3.0
"""So long has a source to answer who becomes active: the links of others wait for none that is
away, and its own link asks it again."""
_TROUBLE_S: Final = 5.0
"""Pause after a look, or a write of events, that failed."""
_SHOWN_S: Final = 0.05
_LOOKS: Final = 7
"""Between looks at the target for what was made, and how many."""
_EVENTS_S: Final = 1.0
"""Pause before events that came during a write, or wait for their topic to be made."""

_log = logger(__name__)


def build(context: Context) -> SyncService:
    """The service, configured and not connected."""
    return SyncService(context)


class SyncService:
    """One instance; of several of a fleet one is active, and the catalog is fenced."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = settings.parse(context.settings)
        self._fleet = FleetSync(
            context.estate, context.target, self._settings, context.clock, context.dice
        )
        self._leadership = leadership(context, self._fleet.target, "sync")
        self._sides = self._fleet.sides
        self._store = self._fleet.store
        self._store.is_ours = self._leadership.is_ours
        self._reports: dict[Link, LinkReport] = {}
        self._forget()
        self._one_at_a_time = asyncio.Lock()
        self._retired = False
        """Whether all links that are no longer in the estate were seen to since the begin."""
        register_gauges(context.metrics, context.clock, self._reports.values())

    async def serve(self, stop: Stop) -> None:
        """Keep the fleet in step until `stop`; a look that is under way is simply ended.

        Raises:
            MirrorfleetError: the target refuses us, or every source does: nothing was written. One
                of several that is refused holds its own link; who is away is waited for.
        """
        try:
            if not await reached(self._context, stop, self._fleet.target.open):
                return
            # what is refused now has not even joined a group
            errors = await stop.unless(self._open_sources())
            self._raise_if_vain(errors or {})
            self._context.health.active.clear()  # who is active meets it again, and says so
            self._forget()
            await self._leadership.run(self._work, stop, self._forget)
        finally:
            await self._fleet.close()

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
        return list(self._reports.values())

    def _forget(self) -> None:
        """Know of no look at any link."""
        for side in self._sides:
            self._reports[side.link] = LinkReport(side.link, acl_policy=side.flow.acls)

    # -- start

    async def _work(self) -> None:
        """Be the active one, for ever; what will be had later is waited for, and said."""
        health = self._context.health.active
        health.hold(STARTING, "not read yet")
        await begun(
            self._begin,
            is_ours=self._leadership.is_ours,
            tell=lambda text: health.hold(STARTING, text),
            dice=self._context.dice,
        )
        for link in {f"link {side.link}" for side in self._sides} - health.held().keys():
            health.hold(link, "not looked at yet")
        health.release(STARTING)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_events(), name=EVENTS)
            for side in self._sides:
                group.create_task(self._follow(side), name=f"link:{side.link}")

    async def _begin(self) -> None:
        """Read and write what must be there before the first look.

        Raises: MirrorfleetError; all of it may be done again.
        """
        self._fleet.begin_anew()
        self._retired = False
        await self._fleet.learn_defaults()
        errors = await self._open_sources(_TAKE_OVER_S)
        self._raise_if_vain(errors)
        if any(side.may_change for side in self._sides):
            await self._store.take()
        await self._store.refresh()
        refused = await self._refuse()
        self._raise_if_vain(errors | refused)
        for side in self._sides:
            if side.is_met and side.link not in refused:
                await self._fleet.introduce(side, write=side.may_change)
        await self._retire_links()

    def _raise_if_vain(self, errors: Mapping[Link, MirrorfleetError]) -> None:
        """Raises: MirrorfleetError: no link can begin, and waiting helps none."""
        found = list(errors.values())
        if len(found) == len(self._sides) and not any(error.retriable for error in found):
            raise found[0]

    async def _open_sources(self, limit_s: float | None = None) -> dict[Link, MirrorfleetError]:
        """Reach all sources, side by side; why not, where one is away or refused: that is tried
        again later.
        """
        errors: dict[Link, MirrorfleetError] = {}

        async def reach(side: Side) -> None:
            try:
                await self._reach(side, limit_s)
            except MirrorfleetError as error:
                errors[side.link] = error
                self._failed(side, error)

        await all_of(map(reach, self._sides))
        return errors | await self._refuse()

    async def _reach(self, side: Side, limit_s: float | None) -> None:
        """Raises: MirrorfleetError; DeadlineError, too, when `limit_s` is over."""
        try:
            async with asyncio.timeout(limit_s):
                await self._fleet.open_source(side)
        except TimeoutError:
            raise DeadlineError(f"{side.link.source} does not answer yet.") from None

    async def _refuse(self) -> dict[Link, RefusedError]:
        """Find the links that are not what they were, and leave them to a later meeting."""
        refused: dict[Link, RefusedError] = {}
        for side in self._sides:
            try:
                self._fleet.check(side)
            except RefusedError as error:
                refused[side.link] = error
                await self._fleet.refuse(side)
                self._failed(side, error)
        return refused

    async def _retire_links(self) -> None:
        """Mark what links copied that are no longer in the estate; say what is copied all the same.

        Raises: MirrorfleetError; the next look does the rest.
        """
        if self._retired:
            return
        found = self._fleet.retired([side for side in self._sides if not side.known])
        kept = still_copied(found, self._settings.apply)
        self._context.health.active.note("removed links", "; ".join(kept.values()))
        for link in found.keys() - kept.keys():
            await self._store.publish(found[link].ends)
            self._tell(EventKind.LINK_REMOVED, link, None, "it is not in the estate")
        self._retired = not kept

    # -- a link

    async def _follow(self, side: Side) -> None:
        clock, report = self._context.clock, self._reports[side.link]
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
                self._context.health.active.release(f"link {side.link}")
                report.trouble = ""
                report.looked_at = clock.monotonic()
                report.took_s = report.looked_at - started
                cycle = self._context.metrics.histogram(names.SYNC_CYCLE, str(side.link))
                cycle.observe(report.took_s)
            await asyncio.sleep(pause)

    async def _meet(self, side: Side) -> None:
        """A source that was away or refused at the start."""
        await self._fleet.open_source(side)
        async with self._one_at_a_time:
            await self._store.refresh()
            try:
                self._fleet.check(side)
            except RefusedError:
                await self._fleet.refuse(side)
                raise
            await self._fleet.introduce(side, write=side.may_change)
            await self._retire_links()

    async def _look(self, side: Side) -> float:
        """Look at both ends and bring the target in step; the pause until the next look."""
        await self._fleet.look(side)
        tried: set[Change] = set()
        left: Plan | None = None
        patience_s = self._settings.patience_s
        while left is None:
            await self._fleet.renewed(side)  # a step took long, or a turn was lost
            async with self._one_at_a_time:  # a step each: thousands of one link stop no other
                source = await self._fleet.renewed_soon(side, patience_s)
                if source is None:  # others go on while it is looked at
                    patience_s *= 2  # one that is only slow gets its turn in the end
                    continue
                left = await self._turn(side, source, tried)
        unsettled = any(change.kind is ChangeKind.CREATED for change in tried) and left.pending
        if side.watch.unconfirmed or unsettled:
            return self._settings.confirm_s
        return self._settings.period_s

    async def _turn(self, side: Side, source: SourceView, tried: set[Change]) -> Plan | None:
        """Plan, publish, and make one step; None, or what is left when there is no step to make."""
        if not tried:
            await self._mend_topics(side)
        await self._store.refresh()
        await self._retire_links()
        seen, free = await self._planned(side, source)
        step = self._fleet.changes.next_step(side.link, free, tried)
        if step.changes_target:
            await self._fleet.make(side, step, self._made)
            await self._publish_made(side, source, {each.claim for each in step.create})
            return None
        self._fleet.changes.forget(side.link, free)
        self._note(side, seen, left_out(seen.plan, free))
        return free

    async def _planned(self, side: Side, source: SourceView) -> tuple[Seen, Plan]:
        """Plan, and publish what exists; gives what may be done without being asked, too."""
        seen = await self._fleet.plan(side, source)
        free = automatic(seen.plan, side.terms, self._settings.apply)
        await self._publish(side, free)
        return seen, free

    async def _publish_made(self, side: Side, source: SourceView, made: set[Claim]) -> None:
        """In the same turn: others may take a copy that no catalog names for an original. A broker
        hears of a topic a moment later than the controller.
        """
        source = await self._fleet.renewed_soon(side, self._settings.patience_s) or source
        for _ in range(_LOOKS):
            seen, _ = await self._planned(side, source)
            if made.isdisjoint(each.claim for each in seen.plan.create):
                return
            await asyncio.sleep(_SHOWN_S)

    async def _mend_topics(self, side: Side) -> None:
        """Nothing may be copied while one is missing; what a look brings is not held up by it."""
        if not side.may_change:
            return
        note = f"control topics of {side.link}"
        try:
            made = await self._store.mend_topics(self._fleet.slots)
        except BrokerError as error:
            self._context.health.active.note(note, f"one is gone: {error}")
            return
        self._context.health.active.note(note, "")
        for name in made:
            self._tell(EventKind.TOPIC_CREATED, side.link, name, "a control topic was gone")

    async def _publish(self, side: Side, planned: Plan) -> None:
        await self._fleet.publish(side, planned)
        if not planned.publish:
            return
        count = len(planned.publish)
        self._context.metrics.counter(names.SYNC_CHANGES, str(side.link), "published").add(count)
        removed = {e.source_topic for e in planned.publish if e.state is CatalogState.REMOVED}
        for topic in sorted(removed & planned.ended.keys()):
            self._tell(EventKind.TOPIC_REMOVED, side.link, topic, planned.ended[topic])
        _log.info("catalog published", extra=fields(link=str(side.link), count=count))

    # -- what is told

    async def _write_events(self) -> None:
        """Write what is told as it comes, for ever. No look waits for it: the topic may take none
        for minutes, while the target takes all that a look has to change.
        """
        while True:
            await self._store.waits.wait()
            trouble = await self._store.flush()
            text = f"cannot be written: {trouble}" if trouble else ""
            self._context.health.active.note(EVENTS, text)
            if self._store.waits.is_set():
                await asyncio.sleep(_TROUBLE_S if trouble else _EVENTS_S)

    def _made(self, done: Done) -> None:
        link, kind, topic = done.change.link, done.change.kind, done.change.topic
        self._context.metrics.counter(names.SYNC_CHANGES, str(link), kind).add()
        self._tell(change_kind(kind), link, topic or None, done.detail)

    def _note(self, side: Side, seen: Seen, waiting: Plan) -> None:
        report = self._reports[side.link]
        report.claims = seen.chosen.claims
        report.source_cluster, report.slots = side.source_cluster, side.slots
        report.skipped = seen.chosen.skipped
        report.pending = seen.plan.pending
        report.entries = len(self._store.book.slots_taken(side.cluster.cluster_id))
        report.acl_trouble, report.loop_trouble = side.acl_trouble, side.watch.loop_trouble
        for kind, detail in report.news_of_drift(waiting):
            self._tell(kind, side.link, None, detail)
        held = [*seen.chosen.held, *seen.plan.held, *self._fleet.changes.held(side.link)]
        for each in report.news(held):
            topic = each.topic if each.topic != ACLS else None
            self._tell(event_kind(each.reason), side.link, topic, each.detail, each.reason)
        health, deaf = self._context.health.active, self._fleet.deaf
        health.note(f"link {side.link}", report.notes())
        health.note(REQUESTS, f"what workers ask for cannot be read: {deaf}" if deaf else "")

    def _failed(self, side: Side, error: Exception) -> None:
        text, report = describe(error), self._reports[side.link]
        if isinstance(error, RefusedError) and report.trouble != text:
            self._tell(EventKind.LINK_REFUSED, side.link, None, text)
        report.trouble = text
        self._context.health.active.hold(f"link {side.link}", text)
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
