"""The checkpoint service: follows catalog and offset map, looks at each link's groups, packs.

    start:  target -> catalog, offset map -> links          stop:  what is under way is ended

It holds no state that is not in topics: a second instance of a fleet does the same again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import flow_of
from mirrorfleet.core.errors import CorruptBatchError, MirrorfleetError, UnknownVersionError
from mirrorfleet.core.ids import ClusterAlias, Link, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import CatalogView, follow_catalog, open_source
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.packing import Packer
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.lifecycle import describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.reaching import reached
from mirrorfleet.standby.leading import leadership
from services.checkpoint import report, settings
from services.checkpoint.link import LinkGroups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

    from mirrorfleet.config.model import EstateLink
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.offsets.packing import Floor
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

CLIENT: Final = "mirrorfleet-checkpoint"
CATALOG: Final = "catalog"
MAP: Final = "offset map"
PACKING: Final = "packing"
_TROUBLE_S: Final = 2.0
"""Pause after something that failed and may go better the next time."""

_NAMED: Final = 5
"""Slots that are behind, in a reason."""

_log = logger(__name__)


def build(context: Context) -> CheckpointService:
    """The service, configured and not connected."""
    return CheckpointService(context)


class CheckpointService:
    """One instance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = settings.parse(context.settings)
        estate, target = context.estate, context.target
        self._target = self._cluster(target)
        self._store = KafkaMapStore(self._target, context.fleet, context.clock)
        self._map = MapFollower(self._target, context.fleet, self._store)
        self._view = CatalogView(keeps_removed=True)
        self._known, self._loaded = asyncio.Event(), asyncio.Event()
        self._begun = asyncio.Event()
        """The map was read but for slots without a leader: groups are set where it says enough."""
        self._sources: dict[Link, Cluster] = {}
        self._links: dict[Link, LinkGroups] = {}
        for entry in estate.links_into(target):
            self._add(entry)
        report.register_gauges(context.metrics, context.clock, self._links.values(), self._map)

    async def serve(self, stop: Stop) -> None:
        """Keep groups in place until `stop`.

        Raises:
            MirrorfleetError: the target refuses us before the map was read; segments or archive
                are of an unknown version, or disagree.
        """
        health = self._context.health
        health.hold(CATALOG, "not read yet")
        health.hold(MAP, "not read yet")
        try:
            if not await reached(self._context, stop, self._target.open):
                return
            async with asyncio.TaskGroup() as group:
                read = group.create_task(self._read(), name="read")
                place = leadership(self._context, self._target, "checkpoint")
                for link in self._links.values():
                    link.is_ours = place.is_ours
                await place.run(self._write, stop, self._forget)
                read.cancel()
        finally:
            for link in self._links.values():
                link.close()
            self._map.close()
            self._store.close()
            for source in self._sources.values():
                await source.close()
            await self._target.close()

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        return report.status(self._links.values(), self._map, self._context.clock)

    def app(self) -> FastAPI:
        """`/translate`: one offset on the other side."""
        return report.new_app(self._copies, self._sources, self._loaded.is_set, self._target)

    # -- parts

    def _add(self, entry: EstateLink) -> None:
        context = self._context
        source = self._sources[entry.link] = self._cluster(entry.source)
        self._links[entry.link] = LinkGroups(
            flow_of(context.estate, entry), source, self._target, self._settings, context.clock
        )

    def _cluster(self, alias: ClusterAlias) -> Cluster:
        """No request is waited for longer than the settings say: a cluster away is told soon."""
        known = cluster_settings(self._context.estate, alias, CLIENT)
        return Cluster(replace(known, request_timeout_s=self._settings.request_s))

    def _copies(self, link: Link) -> Copies:
        return Copies(self._view.of_link(link), self._map.index, self._view.losses)

    def _known_copies(self, link: Link) -> Copies:
        """Without partitions whose map was never read up to its end: what it says is too low."""
        unread = self._map.unread
        entries = (entry for entry in self._view.of_link(link) if entry.slot not in unread)
        return Copies(entries, self._map.index, self._view.losses)

    async def _read(self) -> None:
        """Follow catalog and map, as a standby as well: it takes over with all of it known."""
        health = self._context.health

        def known() -> None:
            health.release(CATALOG)
            self._known.set()

        def trouble(text: str) -> None:
            health.hold(CATALOG, text)
            _log.info("waiting for the catalog", extra=fields(error=text))

        async with asyncio.TaskGroup() as group:
            catalog = follow_catalog(
                self._target.settings,
                self._context.fleet,
                self._view,
                on_caught_up=known,
                on_trouble=trouble,
            )
            group.create_task(catalog, name="catalog")
            group.create_task(self._follow_map(), name="map")
            group.create_task(self._forget_old(), name="forget")

    async def _write(self) -> None:
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(self._follow_link(link), name=f"link:{link}")
            group.create_task(self._pack(), name="pack")

    def _forget(self) -> None:
        for link in self._links.values():
            link.forget()

    async def _follow_map(self) -> None:
        """Keep the map up to date for ever.

        Once it was read, only what is wrong with it ends this: a login that is refused, or a file
        that cannot be read, may be a secret that is being replaced.
        """
        health = self._context.health
        await self._known.wait()
        while True:
            self._map.want(self._view.slots)
            try:
                await self._map.step()
            except MirrorfleetError as error:
                is_wrong = isinstance(error, UnknownVersionError | CorruptBatchError)
                if is_wrong or not (error.retriable or self._loaded.is_set()):
                    raise
                health.hold(MAP, str(error))
                _log.info("waiting for the offset map", extra=fields(error=str(error)))
                await asyncio.sleep(_TROUBLE_S)
                continue
            self._say_how_far()
            if not self._map.slots:
                await asyncio.sleep(_TROUBLE_S)

    def _say_how_far(self) -> None:
        health, waiting, behind = self._context.health, self._map.leaderless, self._map.behind
        if self._map.unread <= waiting.keys():
            self._begun.set()
        if waiting:
            health.hold(MAP, str(next(iter(waiting.values()))))
        elif behind:
            slots = ", ".join(map(str, sorted(behind)[:_NAMED]))
            health.hold(MAP, f"slots that are not read to their end yet ({len(behind)}): {slots}")
        else:
            health.release(MAP)
            self._loaded.set()

    async def _forget_old(self) -> None:
        """Let go for ever of what nobody can ask about any more, as a standby as well."""
        floors = LogFloors(self._target)
        while True:
            await asyncio.sleep(self._settings.prune_period_s)
            self._map.index.forget_below(await self._look(floors))

    async def _look(self, floors: LogFloors) -> dict[PartitionIdentity, Floor]:
        sources = {link.source: cluster for link, cluster in self._sources.items()}
        return await floors.look(sources, self._view.mapped)

    async def _follow_link(self, link: Link) -> None:
        """Look at the groups of a link for ever; a look that fails is prepared and tried again."""
        health, hold = self._context.health.active, f"link {link}"
        groups = self._links[link]
        health.hold(hold, "not looked at yet")
        prepared = False
        await self._begun.wait()
        while True:
            started = self._context.clock.monotonic()
            try:
                if not prepared:
                    await self._open(link)
                    await groups.prepare()
                    prepared = True
                await groups.look(self._known_copies(link))
            except (MirrorfleetError, ExceptionGroup) as error:
                if not is_ours(error):
                    raise
                prepared = False  # a topic may be gone: operators clear what MM2 left
                groups.report.trouble = describe(error)
                health.hold(hold, groups.report.trouble)
                _log.warning("a look failed", extra=fields(link=str(link), error=describe(error)))
                await self._keep(link)
            else:
                groups.report.trouble = ""
                health.release(hold)
                health.note(hold, report.shut_out(groups))
            self._count(groups)
            took = self._context.clock.monotonic() - started
            await asyncio.sleep(max(self._settings.period_s - took, 0.1))

    async def _keep(self, link: Link) -> None:
        """What failed may be the source, and stay so for longer than the target remembers."""
        try:
            await self._links[link].keep(self._copies(link))
        except (MirrorfleetError, ExceptionGroup) as error:
            if not is_ours(error):
                raise
            _log.warning("offsets not kept", extra=fields(link=str(link), error=describe(error)))

    async def _open(self, link: Link) -> None:
        """Reach the source. Raises: RefusedError when its alias means another cluster now."""
        await open_source(self._sources[link], self._view, self._context.fleet)

    def _count(self, groups: LinkGroups) -> None:
        metrics, link = self._context.metrics, str(groups.flow.link)
        for outcome, count in groups.commits.items():
            metrics.counter(names.GROUP_COMMITS, link, outcome).add(count)
        groups.commits.clear()
        metrics.counter(names.CHECKPOINTS, link).add(groups.report.checkpoints)
        groups.report.checkpoints = 0

    async def _pack(self) -> None:
        """Pack slots that have enough segments, one after the other, and prune what was packed.

        Spark, where it packs, does not prune.
        """
        await self._begun.wait()
        clock, failures = self._context.clock, self._context.metrics.counter(names.PACK_FAILURES)
        packs = self._settings.pack is settings.Pack.FLEET
        pruned_at, floors = clock.monotonic(), LogFloors(self._target)
        # known for one term as the leader: who packed since knows what we do not
        packers: dict[SlotNumber, Packer] = {}
        while True:
            is_time = clock.monotonic() - pruned_at >= self._settings.prune_period_s
            low = await self._look(floors) if is_time else {}
            failed: dict[SlotNumber, str] = {}
            for slot in sorted(self._view.slots - self._map.unread):
                packer = packers.setdefault(slot, Packer(self._store, slot))
                try:
                    if packs:
                        await self._pack_slot(slot, packer)
                    if is_time:
                        await self._prune_slot(slot, packer, low)
                except MirrorfleetError as error:
                    # nothing was freed; what is wrong with the map itself stops its follower
                    failed[slot] = str(error)
                    _log.warning("not packed", extra=fields(slot=slot, error=str(error)))
            failures.add(len(failed))
            self._context.health.active.note(PACKING, report.not_packed(failed))
            pruned_at = clock.monotonic() if is_time else pruned_at
            await asyncio.sleep(self._settings.pack_period_s)

    async def _prune_slot(
        self, slot: SlotNumber, packer: Packer, floors: Mapping[PartitionIdentity, Floor]
    ) -> None:
        removed = await packer.prune(floors)
        if removed:
            _log.info("pruned", extra=fields(slot=slot, count=removed))

    async def _pack_slot(self, slot: SlotNumber, packer: Packer) -> None:
        left = True
        while left:
            done = await packer.pack(at_least=self._settings.pack_at_least)
            left = done.segments > 0 and done.left >= self._settings.pack_at_least
            if done.segments:
                counter = self._context.metrics.counter(names.PACKED, str(slot))
                counter.add(done.segments)
                _log.info("packed", extra=fields(slot=slot, count=done.segments))
