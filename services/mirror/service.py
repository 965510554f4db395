"""The mirror service: follows the catalog, runs a slot for each that has partitions, reports.

    start:  target -> catalog -> sources -> slots          stop:  slots -> last progress -> clusters

Everything it knows is in control topics on the target; it writes positions, segments, progress
and events, and nothing else than copies.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.schedule import backoff_s
from mirrorfleet.core.errors import MirrorfleetError, UnknownVersionError
from mirrorfleet.core.ids import ClusterAlias, Link, PartitionIdentity, SlotNumber, TopicPartition
from mirrorfleet.core.names import service_id
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.membership import SESSION_S, Membership
from mirrorfleet.mapping.catalog import CatalogView, follow_catalog, open_source
from mirrorfleet.mapping.runs import StoredMap
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.members import NO_SLOTS
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.reaching import reached
from mirrorfleet.slots import contacts, requests
from mirrorfleet.slots.leaders import Leaders, Role
from mirrorfleet.slots.meters import LinkMeters
from mirrorfleet.slots.owning import Owning
from mirrorfleet.slots.recalling import check_versions
from mirrorfleet.slots.trace_topics import Tracing, Upstream
from mirrorfleet.slots.worker import SourceSide, Worker
from services.mirror import reporting, settings
from services.mirror.claiming import Claiming
from services.mirror.telling import Teller, last_told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mirrorfleet.kafka.transactions import TransactionVersion
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.members import Slots
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop
    from mirrorfleet.slots.runner import SlotRunner

CLIENT: Final = "mirrorfleet-mirror"
CATALOG: Final = "catalog"
GROUP: Final = "group"
"""What holds a worker back that is no member of the workers' group."""
CONNECT_S: Final = 3.0
"""For all sources to be reached before we join; slots of the others are not given to us."""
CHECK_S: Final = 3.0
"""For a look at the positions of a slot before it is taken; a leader that is away costs no more."""

_log = logger(__name__)


def build(context: Context) -> MirrorService:
    """The service, configured and not connected."""
    return MirrorService(context)


class MirrorService:
    """One worker of a fleet."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = settings.parse(context.settings)
        self._view = CatalogView()
        self._sides: dict[ClusterAlias, SourceSide] = {}
        self._connecting: set[ClusterAlias] = set()
        self._following: list[asyncio.Task[None]] = []
        self._worker: Worker | None = None
        self._membership: Membership | None = None
        self._owning: Owning | None = None
        self._checked: set[SlotNumber] = set()
        self._claiming = Claiming(context.clock, self._held, self._ours)
        self._looks = reporting.Looks(time.process_time)
        self._changed, self._known = asyncio.Event(), asyncio.Event()
        self._all_reached = asyncio.Event()
        self._tracing = Tracing(
            context.telemetry, context.metrics, context.clock, fleet=context.fleet
        )
        self._register_gauges()

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        worker = self._worker
        return {
            "transaction_version": None if worker is None else int(worker.version),
            "partitions": len(self._view.partitions),
            "memory_bytes": 0 if worker is None else worker.budget.used,
            "memory_peak_bytes": 0 if worker is None else worker.budget.peak,
            "slots": reporting.status(self._ours()),
        }

    async def serve(self, stop: Stop) -> None:
        """Copy until `stop`; then finish open transactions within its deadline.

        Raises:
            MirrorfleetError: the target refuses us: nothing was written.
        """
        context = self._context
        target = Cluster(cluster_settings(context.estate, context.target, CLIENT))
        context.health.hold(CATALOG, "not read yet")
        try:
            if await reached(context, stop, target.open_everywhere):
                await self._serve_with(stop, target)
        finally:
            for side in self._sides.values():
                await side.cluster.close()
            await target.close()

    async def _serve_with(self, stop: Stop, target: Cluster) -> None:
        context = self._context
        targets = Leaders(target, context.clock, Role.TARGET)
        context.health.watch(f"target {context.target}", lambda: targets.trouble)
        self._membership = membership = self._make_membership(target)
        context.health.watch(GROUP, lambda: self._outside(membership))
        context.health.watch(
            "slots", lambda: reporting.standing_still(self._ours(), context.clock.monotonic())
        )
        version = await target.transaction_version()
        self._worker = worker = self._make_worker(targets, version, membership)
        targets.need(control_topic(context.fleet, kind) for kind in _CONTROL)
        worker.event(EventKind.WORKER_STARTED)
        async with asyncio.TaskGroup() as slots, asyncio.TaskGroup() as helpers:
            self._owning = owning = Owning(worker, membership, tasks=slots, stop=stop)
            background = [
                helpers.create_task(targets.keep(), name="leaders:target"),
                helpers.create_task(self._follow_catalog(worker), name="catalog"),
                helpers.create_task(self._assign(owning, helpers, stop), name="assign"),
                helpers.create_task(owning.keep(), name="owning"),
                helpers.create_task(self._report(worker), name="report"),
                helpers.create_task(requests.follow(worker), name="requests"),
                helpers.create_task(self._tracing.announce(target), name="announce"),
            ]
            member = helpers.create_task(self._be_member(membership), name="group")
            await stop.wait()
            await owning.handed_over()
            await owning.drained()
            member.cancel()  # the others take the slots while we say goodbye
            worker.event(EventKind.WORKER_STOPPED)
            await last_told(worker, self._tell, stop.remaining() * 2 / 3)
            keepers = [side.keeper for side in self._sides.values()]
            for task in [*background, *self._following, *keepers]:
                task.cancel()

    def _make_membership(self, target: Cluster) -> Membership:
        context = self._context
        return Membership(
            target,
            group=service_id(context.fleet, "mirror"),
            topic=control_topic(context.fleet, ControlKind.SLOTS),
            owner=context.owner,
            clock=context.clock,
            known=self._claiming.known,
            carried=self._claiming.carried,
        )

    def _make_worker(
        self, targets: Leaders, version: TransactionVersion, membership: Membership
    ) -> Worker:
        context, target = self._context, targets.cluster
        return Worker(
            owner=context.owner,
            fleet=context.fleet,
            settings=self._settings,
            clock=context.clock,
            dice=context.dice,
            target=target,
            targets=targets,
            version=version,
            principal=target.settings.security.principal,
            budget=MemoryBudget(self._settings.memory_bytes),
            confirm=membership.confirm,
            stored_map=StoredMap(target, context.fleet, context.clock),
        )

    async def _be_member(self, membership: Membership) -> None:
        """Join the workers' group as soon as there are slots to share out, and we can copy them."""
        await self._known.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await self._all_reached.wait()
        await membership.run()

    def _outside(self, membership: Membership) -> str:
        """Why we get none of the slots that there are; "" for a member, who may be given none."""
        if not self._known.is_set():
            return ""
        group = membership.group
        if membership.share is None:
            return membership.trouble or f"{group}: not a member yet"
        why = reporting.unconfirmed(group, membership.silent_s, self._ours())
        return why and (membership.trouble or why)

    # -- the catalog

    async def _follow_catalog(self, worker: Worker) -> None:
        """Once it was read, nothing but a newer format ends this: copying goes on from what is
        known.
        """
        health = self._context.health

        def known() -> None:
            worker.write_at(self._view.format_level)
            health.release(CATALOG)
            self._changed.set()

        def trouble(text: str) -> None:
            health.hold(CATALOG, text)
            _log.info("waiting for the catalog", extra=fields(error=text))

        await follow_catalog(
            worker.target.settings,
            worker.fleet,
            self._view,
            on_caught_up=known,
            on_trouble=trouble,
        )

    async def _assign(self, owning: Owning, helpers: asyncio.TaskGroup, stop: Stop) -> None:
        """Give each slot its partitions, after each change of the catalog or of what we hold."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            by_slot: dict[SlotNumber, dict[PartitionIdentity, CatalogPartition]] = {}
            sources: dict[SlotNumber, ClusterAlias] = {}
            for identity, entry in self._view.partitions.items():
                by_slot.setdefault(entry.slot, {})[identity] = entry
                sources[entry.slot] = entry.link.source
            reached = frozenset(self._sides)
            await self._check_positions(n for n, s in sources.items() if s in reached)
            slots = frozenset(by_slot) | self._view.slots
            self._claiming.learned(slots, sources, reached)
            if slots:
                self._known.set()
            if reached.issuperset(sources.values()):
                self._all_reached.set()
            for number, source in sources.items():
                side = self._sides.get(source)
                if side is not None:
                    owning.assign(number, side, by_slot[number])
                elif source not in self._connecting:
                    self._connecting.add(source)
                    connecting = self._connect(source, helpers, stop)
                    self._following.append(helpers.create_task(connecting, name=f"to:{source}"))
            owning.keep_only(by_slot.keys())

    async def _check_positions(self, numbers: Iterable[SlotNumber]) -> None:
        """Positions of a newer build end this process before it takes any slot from its owner.

        Raises:
            ExceptionGroup: of an UnknownVersionError.
        """
        worker = self._worker
        if worker is None:
            return
        topic = control_topic(worker.fleet, ControlKind.POSITIONS)

        async def check(number: SlotNumber) -> None:
            try:
                async with asyncio.timeout(CHECK_S):
                    await check_versions(worker.target, TopicPartition(topic, number))
            except UnknownVersionError:
                raise
            except (MirrorfleetError, TimeoutError) as error:
                # The slot itself will meet this again, wait, and say so.
                _log.info("positions not checked", extra=fields(slot=number, error=str(error)))

        async with asyncio.TaskGroup() as group:
            for number in set(numbers) - self._checked:
                self._checked.add(number)
                group.create_task(check(number), name=f"check:{number}")

    async def _connect(self, source: ClusterAlias, helpers: asyncio.TaskGroup, stop: Stop) -> None:
        """Connect the source of a link, however long that takes; other links go on meanwhile."""
        context, hold = self._context, f"source {source}"
        context.health.hold(hold, "not reached yet")  # one that is silent refuses only much later
        cluster = await self._reach(source, hold, stop)
        context.health.release(hold)
        if cluster is None:
            self._connecting.discard(source)
            return
        link = Link(source, context.target)
        leaders = Leaders(cluster, context.clock)
        context.health.watch(hold, lambda: leaders.trouble)
        keeper = helpers.create_task(leaders.keep(), name=f"leaders:{source}")
        traces = self._tracing.link(link)
        upstream = Upstream(cluster, context.estate.fleet_of(source))
        self._following.append(
            helpers.create_task(
                self._tracing.follow(traces, link, upstream), name=f"traces:{source}"
            )
        )
        meters = LinkMeters(context.metrics, link, traces)
        side = self._sides[source] = SourceSide(
            link, cluster, leaders, meters, cluster.settings.security.principal, keeper
        )
        kept = contacts.keep(self._claiming.meets(source), side, context.clock)
        self._following.append(helpers.create_task(kept, name=f"contact:{source}"))
        self._changed.set()

    async def _reach(self, source: ClusterAlias, hold: str, stop: Stop) -> Cluster | None:
        """The cluster that the catalog means by an alias, once it is there.

        None at the stop, and when nothing is copied from there any more: its link was removed.
        """
        context, failures = self._context, 0
        while not stop.is_set() and self._copies_from(source):
            # a new one each time: what was opened once is taken for that cluster for ever
            async with AsyncExitStack() as unless_reached:
                try:
                    cluster = Cluster(cluster_settings(context.estate, source, CLIENT))
                    unless_reached.push_async_callback(cluster.close)
                    await open_source(cluster, self._view, context.fleet)
                    unless_reached.pop_all()
                    return cluster
                except MirrorfleetError as error:  # also of an estate that does not know it yet
                    failures += 1
                    context.health.hold(hold, str(error))
                    _log.warning("no source", extra=fields(source=source, error=str(error)))
            await stop.wait_at_most(backoff_s(failures, context.dice.uniform(0, 1)))
        return None

    def _copies_from(self, source: ClusterAlias) -> bool:
        return any(entry.link.source == source for entry in self._view.partitions.values())

    # -- reports

    async def _report(self, worker: Worker) -> None:
        """Tell all in time, whatever of it takes how long to be written."""
        clock = worker.clock
        async with asyncio.TaskGroup() as tasks:
            teller, is_sure = Teller(worker, tasks), True
            while True:
                slept_at = clock.monotonic()
                await asyncio.sleep(self._settings.progress_s)
                is_sure = is_sure and clock.monotonic() - slept_at <= SESSION_S
                is_sure = is_sure or await worker.confirm()
                if is_sure:  # else we overslept: what we would tell is another worker's to tell
                    self._tell(teller)

    def _tell(self, teller: Teller) -> None:
        """Begin to tell how all stands now."""
        self._claiming.sample()
        self._looks.look(self._ours(), self._context.clock.monotonic())
        teller.tell(self._told_of())

    def _held(self) -> Slots:
        share = None if self._membership is None else self._membership.share
        return NO_SLOTS if share is None else share.slots

    def _ours(self) -> list[SlotRunner]:
        return self._owning.ours() if self._owning else []

    def _told_of(self) -> list[SlotRunner]:
        return self._owning.told_of() if self._owning else []

    def _surely(self) -> list[SlotRunner]:
        """Without those that others may copy by now: we do not, and nobody calls them ours."""
        told, membership = self._told_of(), self._membership
        if membership is None or membership.silent_s < reporting.SILENT_S:
            return told
        return [runner for runner in told if runner.untaken.since is None]

    def _links(self) -> list[Link]:
        """Of which somebody must hold slots: all, until the catalog says that one has nothing."""
        context = self._context
        links = [each.link for each in context.estate.links_into(context.target)]
        busy = {entry.link for entry in self._view.partitions.values()}
        return [link for link in links if link in busy] if self._known.is_set() else links

    def _register_gauges(self) -> None:
        metrics = self._context.metrics
        told = self._told_of, self._surely, self._ours, self._links
        reporting.Gauges(*told).register(metrics)
        metrics.on_scrape(
            names.IN_FLIGHT,
            lambda: [((), float(self._worker.budget.used if self._worker else 0))],
        )


_CONTROL: Final = (
    ControlKind.POSITIONS,
    ControlKind.SEGMENTS,
    ControlKind.PROGRESS,
    ControlKind.EVENTS,
)
