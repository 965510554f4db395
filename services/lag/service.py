"""The lag service: hears the mirror, looks at the source, judges, writes samples and events.

    progress (Faust) ──┐
    source ends ───────┼──> Board ──> samples, verdict-changed events, gauges
    heartbeats ────────┘

What an instance knows of a slot is read from `.progress` and `.samples` when the slot comes to
it, so it goes on where another one stopped, and so it does after a restart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.control_writer import Entry, write_waiting
from mirrorfleet.kafka.together import all_of
from mirrorfleet.lagging.board import Board, events_of
from mirrorfleet.mapping.catalog import CatalogView, follow_catalog
from mirrorfleet.records import events, progress, samples, traces
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.reaching import reached
from mirrorfleet.watching.stalls import StallWatch
from mirrorfleet.watching.told import last_told
from services.lag import report, settings
from services.lag.link import CLIENT, LinkWatch
from services.lag.stream import ProgressStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import FastAPI

    from mirrorfleet.lagging.board import Place, Told
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

    _Waiting = tuple[TopicPartition, TopicPartition, Callable[[int], Entry]]
    _Left = dict[TopicPartition, deque[_Waiting]]
    """What of a batch is not written, by partition."""

CATALOG: Final = "catalog"
STREAM: Final = "progress stream"
WRITING: Final = "samples"
_TAKE_S: Final = 15.0
_TROUBLE_S: Final = 2.0
_WRITE_S: Final = 5.0
_WANT_S: Final = 2.0
"""Between two looks at what the catalog wants."""
_MOST_PENDING: Final = 50_000
"""Samples that wait for the target; above it the oldest are lost, and counted."""

_log = logger(__name__)


def build(context: Context) -> LagService:
    """The service, configured and not connected."""
    return LagService(context)


class LagService:
    """One instance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = tuning = settings.parse(context.settings)
        estate, target = context.estate, context.target
        self._target = Cluster(cluster_settings(estate, target, CLIENT))
        self._view = CatalogView()
        self._known = asyncio.Event()
        sample_ms, look_ms = round(tuning.sample_s * 1000), round(tuning.look_s * 1000)
        self._board = Board(tuning.limits, sample_ms=sample_ms, look_ms=look_ms)
        self._links = {
            entry.link: LinkWatch(context, entry.link, self._target, self._board, self._settings)
            for entry in estate.links_into(target)
        }
        self._views = [watch.view for watch in self._links.values()]
        self._stalls = StallWatch(self._target, context.fleet, context.clock, self._board)
        self._assigned: frozenset[SlotNumber] | None = None
        """None while nobody listens."""
        self._reassigned = asyncio.Event()
        self._pending: deque[_Waiting] = deque()
        """Each with where it goes to, and where the samples of its slot go to."""
        self._ledger = TopicPartition(control_topic(context.fleet, ControlKind.EVENTS), 0)
        self._writer = ControlWriter(self._target, deadline_s=_WRITE_S)
        self._skipped = context.metrics.counter(names.LAG_SKIPPED, "progress")
        self._lost = context.metrics.counter(names.LAG_UNWRITTEN)
        report.Gauges(self._board, self._views, context.clock).register(context.metrics)

    async def serve(self, stop: Stop) -> None:
        """Watch until `stop`.

        Raises: MirrorfleetError when the target refuses us, or the catalog is of a newer build.
        """
        for name in (CATALOG, STREAM):
            self._context.health.hold(name, "not read yet")
        try:
            if not await reached(self._context, stop, self._target.open):
                return
            async with asyncio.TaskGroup() as group:
                work = group.create_task(self._work(), name="lag")
                await stop.wait()
                work.cancel()
            # A change that counts as told must be in the ledger: nobody else will tell it.
            self._writer.close()
            await self._flush(min(_WRITE_S, stop.remaining() / 2))
        finally:
            for link in self._links.values():
                await link.close()
            await self._target.close()

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        return report.status(self._board, self._views, self._context.clock)

    def app(self) -> FastAPI:
        """`/lag`: partitions, the worst first."""
        return report.new_app(self._board)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_catalog(), name="catalog")
            await self._known.wait()
            for link in self._links.values():
                group.create_task(link.run(self._view), name=f"link:{link.view.link}")
            group.create_task(self._follow_progress(), name="progress")
            group.create_task(self._take_slots(), name="slots")
            group.create_task(self._judge(), name="judge")
            group.create_task(self._write(), name="write")

    async def _follow_catalog(self) -> None:
        health = self._context.health

        def known() -> None:
            health.release(CATALOG)
            self._known.set()

        await follow_catalog(
            self._target.settings,
            self._context.fleet,
            self._view,
            on_caught_up=known,
            on_trouble=lambda text: health.hold(CATALOG, text),
        )

    # -- slots and snapshots

    async def _follow_progress(self) -> None:
        """The stream for ever; one that broke is begun anew."""
        tuning, health = self._settings, self._context.health
        timeout_s = self._target.settings.request_timeout_s
        while True:
            stream = ProgressStream(
                self._target.settings,
                self._context.fleet,
                session_s=tuning.group_session_s,
                request_s=timeout_s,
            )
            try:
                await stream.run(self._hear, self._assign, self._stalls.run)
            except MirrorfleetError as error:
                if not error.retriable:
                    raise
                health.hold(STREAM, str(error))
                _log.warning("no progress stream", extra=fields(error=str(error)))
            await asyncio.sleep(_TROUBLE_S)

    def _hear(self, key: bytes | None, value: bytes | None, slot: SlotNumber, place: Place) -> None:
        self._board.hearing.came(slot, place.offset)
        if traces.is_ours(key):
            return
        now_ms = self._context.clock.now_ms()
        snapshot = progress.decode(key, value, heard_ms=now_ms)
        if isinstance(snapshot, Skipped):
            self._skipped.add()
        else:
            self._board.heard(snapshot, now_ms, place)

    def _assign(self, slots: frozenset[SlotNumber] | None) -> None:
        """Forget those that went at once: a silence that nobody listens to is no worker's."""
        self._assigned = slots
        if slots is None:
            self._context.health.hold(STREAM, "the stream of progress has ended")
        for slot in set(self._board.slots) - (slots or frozenset()):
            self._board.drop(slot)
        self._reassigned.set()

    async def _take_slots(self) -> None:
        """Read what was told of the slots that came."""
        health = self._context.health
        while True:
            await self._reassigned.wait()
            self._reassigned.clear()
            assigned = self._assigned
            if assigned is None:
                continue
            troubles: list[str] = []
            new = assigned - set(self._board.slots)
            await all_of(self._try(slot, assigned, troubles) for slot in new)
            if text := "; ".join(troubles[:3]):
                health.hold(STREAM, text)
                _log.warning("slots not read", extra=fields(error=text))
                await asyncio.sleep(_TROUBLE_S)
                self._reassigned.set()
            else:
                for link in self._links.values():
                    link.check()  # before anybody may take us for ready
                if self._assigned is assigned:
                    health.release(STREAM)

    async def _try(self, slot: SlotNumber, of: frozenset[SlotNumber], found: list[str]) -> None:
        """Take it, or note why not: a partition that cannot be read silences its own slot alone."""
        try:
            async with asyncio.timeout(_TAKE_S):
                await self._take(slot, of)
        except (MirrorfleetError, TimeoutError) as error:
            found.append(str(error) or f"slot {slot}: not read within {_TAKE_S:g} s")

    async def _take(self, slot: SlotNumber, assigned: frozenset[SlotNumber]) -> None:
        many = sum(entry.slot == slot for entry in self._view.partitions.values())
        now_ms = self._context.clock.now_ms()
        told = await last_told(self._target, self._context.fleet, slot, many, now_ms)
        if self._assigned is not assigned:
            return  # it went meanwhile, and if it came back others may have told more of it
        self._skipped.add(told.skipped)
        now_ms = self._context.clock.now_ms()
        self._board.want(self._view.partitions.values(), now_ms)
        self._board.hold(slot, told.samples, now_ms)
        if told.snapshot is not None:
            snapshot, place = told.snapshot
            self._board.heard(snapshot, now_ms, place)

    # -- judging and telling

    async def _judge(self) -> None:
        clock = self._context.clock
        wanted_at = 0.0
        while True:
            begun = clock.monotonic()
            if begun - wanted_at >= _WANT_S:
                self._board.want(self._view.partitions.values(), clock.now_ms())
                wanted_at = begun
            self._board.ease()
            for slot in self._board.slots:
                now_ms = clock.now_ms()
                self._board.awake(now_ms)
                self._tell(slot, self._board.look(slot, now_ms))
                await asyncio.sleep(0)  # thousands of partitions: let others have a turn
            for link in self._links.values():
                link.check()
            await asyncio.sleep(max(0.05, self._settings.look_s - (clock.monotonic() - begun)))

    def _tell(self, slot: SlotNumber, told: Told) -> None:
        context = self._context
        at = TopicPartition(control_topic(context.fleet, ControlKind.SAMPLES), slot)
        self._pending.extend((at, at, partial(samples.encode, one)) for one in told.samples)
        for event in events_of(told.changes, context.owner, context.clock.now_ms()):
            self._pending.append((self._ledger, at, partial(events.encode_at, event)))
        for change in told.changes:
            link = str(change.lag.entry.link)
            context.metrics.counter(names.LAG_CHANGES, link, str(change.new)).add()
        while len(self._pending) > _MOST_PENDING:
            self._pending.popleft()
            self._lost.add()

    async def _write(self) -> None:
        """Write as it comes; what is for a partition that takes no write waits, in order."""
        while True:
            await self._flush(_WRITE_S)
            await asyncio.sleep(self._settings.look_s)

    async def _flush(self, within_s: float) -> None:
        """Write what waits; what was not confirmed within `within_s` waits on. A partition that
        takes no write silences its own slot alone, the ledger those that have a change to tell.
        """
        health = self._context.health
        batch, self._pending = self._pending, deque()
        left: _Left = {}
        for each in batch:
            left.setdefault(each[0], deque()).append(each)
        changed = {of for at, of, _ in batch if at == self._ledger}
        free = [at for at in left if at != self._ledger and at not in changed]
        try:
            async with asyncio.timeout(within_s):
                writes = [self._write_one(at, left) for at in free]
                await all_of([self._write_changed(changed, left), *writes])
            health.release(WRITING)
        except (MirrorfleetError, TimeoutError) as error:
            where = ", ".join(sorted(map(str, left))[:3])
            text = str(error) or f"{self._target.name}: no answer within {within_s:g} s: {where}"
            health.hold(WRITING, text)
            _log.warning("samples cannot be written", extra=fields(error=text))
        finally:
            for each in reversed(batch):  # what is left of a partition are its last ones
                if left.get(each[0]):
                    left[each[0]].pop()
                    self._pending.appendleft(each)

    async def _write_changed(self, changed: set[TopicPartition], left: _Left) -> None:
        """Changes first: who reads the sample of a verdict takes its change for told."""
        if self._ledger in left:
            await self._write_one(self._ledger, left)
            await all_of(self._write_one(at, left) for at in changed if at in left)

    async def _write_one(self, at: TopicPartition, left: _Left) -> None:
        """Take out of `left` what was written."""
        now_ms = self._context.clock.now_ms()
        await write_waiting(self._writer, at, left[at], lambda each: each[2](now_ms), now_ms)
        del left[at]
