"""The slots of this worker: begun and ended as the group says, released ones seen in positions.

    Membership ──share──> Ownership (pure) ──steps──> begin / end of a SlotRunner's run
    positions  ──released──^        ^──ended, confirmed──┘

Nothing here makes writing safe; fencing does. This makes moves short and keeps the rest in peace.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.ownership import PATIENCE_S, End, Ownership, Standing
from mirrorfleet.copying.urgency import rank
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.records import positions
from mirrorfleet.records.positions import Released
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.lifecycle import Stop, describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import taking
from mirrorfleet.slots.runner import SlotRunner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mirrorfleet.copying.sharing import Share
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.kafka.control_reading import ControlRecord
    from mirrorfleet.kafka.membership import Membership
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.worker import SourceSide, Worker

    Entries = dict[PartitionIdentity, CatalogPartition]

LOOK_S: Final = 1.0
"""Between two looks at what is dropped or awaited, when nothing happens."""
LOOK_BACK: Final = 64
"""The release may be written before we look: it is among the last records of the partition then."""
RELEASE_WAIT_MS: Final = 100
HAND_OVER_S: Final = 3.0
"""For a rebalance (others hear of it with their next heartbeat) and the drains."""

_log = logger(__name__)


class Owning:
    """The runners of one worker."""

    def __init__(
        self,
        worker: Worker,
        membership: Membership,
        *,
        tasks: asyncio.TaskGroup,
        stop: Stop,
    ) -> None:
        self._worker = worker
        self._membership = membership
        self._runners: dict[SlotNumber, SlotRunner] = {}
        """Of each slot that ever ran here."""
        self._tasks = tasks
        self._stop = stop
        self._topic = control_topic(worker.fleet, ControlKind.POSITIONS)
        self._clock = worker.clock
        self._slots = Ownership()
        self._wanted: dict[SlotNumber, tuple[SourceSide, Entries]] = {}
        self._stops: dict[SlotNumber, Stop] = {}
        self._seen: Share | None = None
        self._trouble = ""
        self._left_with: Share | None = None
        self._left = asyncio.Event()
        self._is_ending = False

    def ours(self) -> list[SlotRunner]:
        """Slots that run here, and those that were lost; of others it is not ours to tell."""
        return [
            runner
            for number, runner in self._runners.items()
            if self._slots.standing(number) not in (None, Standing.AWAITED)
        ]

    def told_of(self) -> list[SlotRunner]:
        """Those of which we know how they stand: a slot that was lost is its owner's to tell of."""
        return [runner for runner in self.ours() if not runner.is_lost]

    def assign(self, number: SlotNumber, side: SourceSide, entries: Entries) -> None:
        """What a slot copies; it runs as soon as it is ours."""
        self._wanted[number] = (side, entries)
        runner = self._runners.get(number)
        if runner is not None:
            runner.assign(entries)
        side.leaders.need(entry.source_topic for entry in entries.values())
        self._worker.targets.need(entry.target_topic for entry in entries.values())
        at = [(e.source_topic, e.target_topic, e.identity.partition) for e in entries.values()]
        side.leaders.need_partitions((topic, number) for topic, _, number in at)
        self._worker.targets.need_partitions((topic, number) for _, topic, number in at)
        self._start(number)

    def keep_only(self, numbers: Collection[SlotNumber]) -> None:
        """The other slots have nothing to copy any more."""
        for number in self._wanted.keys() - numbers:
            self.assign(number, self._wanted[number][0], {})
        self._forget_topics()

    def _forget_topics(self) -> None:
        """Topics come and go in a mirror's life: what is gone is counted and asked for no more."""
        topics: dict[SourceSide, set[str]] = {}
        copies = {control_topic(self._worker.fleet, kind) for kind in ControlKind}
        for side, entries in self._wanted.values():
            topics.setdefault(side, set()).update(each.source_topic for each in entries.values())
            copies.update(each.target_topic for each in entries.values())
        for side, copied in topics.items():
            side.meters.keep_only(copied)
            side.leaders.keep_only(copied)
        self._worker.targets.keep_only(copies)

    async def handed_over(self) -> None:
        """Let other members take our slots one after the other, for a while; alone, go on at once.

        So a slot stands still for a move and not until the others have missed us.
        """
        if self._membership.share is None or not self._stops:
            return
        self._left_with = self._membership.share
        self._membership.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_S):
                await self._left.wait()

    def _note_leaving(self) -> None:
        """See whether all is handed over, or nobody is there to take it."""
        share = self._membership.share
        is_answered = share is not self._left_with and self._membership.knows_we_leave
        if is_answered and share is not None and (share.slots or not self._stops):
            self._left.set()

    async def drained(self) -> None:
        """End all runs that are left, each with its open transaction finished."""
        self._is_ending = True
        for each in self._stops.values():
            each.set()
        for number in list(self._stops):
            await self._runners[number].ended.wait()

    async def keep(self) -> None:
        """Act on each new share, release and end; runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                share, generation = self._membership.share, self._membership.generation
                if share is not None and share is not self._seen:
                    self._seen = share
                    self._slots.given(share, self._clock.monotonic())
                    text = f"{sorted(share.slots)}, to be released {sorted(share.handed)}"
                    _log.info("slots given: %s", text, extra=fields(generation=generation))
                    if share.handed:
                        watch = self._watch(share.handed, generation)
                        group.create_task(watch, name=f"released:{generation}")
                        ready = self._prepare(share.handed)
                        group.create_task(ready, name=f"prepare:{generation}")
                self._tell_trouble()
                await self._confirm_dropped()
                self._step()
                self._note_leaving()
                left_s = self._slots.next_at() - self._clock.monotonic()
                await self._membership.changed(min(max(left_s, 0.0), LOOK_S))

    def _tell_trouble(self) -> None:
        """Say once why we are no member; the next share says that we are."""
        before, self._trouble = self._trouble, self._membership.trouble
        if self._trouble and self._trouble != before:
            _log.warning("no member of the workers' group", extra=fields(error=self._trouble))

    async def _confirm_dropped(self) -> None:
        """What was fenced is taken again only on the coordinator's word, given after that."""
        dropped = self._slots.with_standing(Standing.DROPPED)
        if dropped and await self._membership.confirm():
            self._slots.confirmed(dropped)

    def _step(self) -> None:
        steps = self._slots.steps(self._clock.monotonic())
        for slot in steps.end:
            self._leave(slot)
        for slot in sorted(steps.begin, key=self._rank):
            self._start(slot)

    def _rank(self, number: SlotNumber) -> int:
        """The most urgent slots are taken first."""
        entries = self._wanted[number][1] if number in self._wanted else {}
        return rank(entry.priority for entry in entries.values())

    def _start(self, number: SlotNumber) -> None:
        is_held = self._slots.standing(number) is Standing.HELD
        if number not in self._wanted or number in self._stops or not is_held:
            return
        if self._stop.is_set():
            return
        runner = self._runner(number)
        runner.assign(self._wanted[number][1])
        stop = self._stops[number] = Stop(self._clock, self._stop.remaining())
        self._tasks.create_task(self._run(runner, stop), name=f"slot:{number}")

    def _runner(self, number: SlotNumber) -> SlotRunner:
        """The runner of a slot that has something to copy, made when it is needed first."""
        runner = self._runners.get(number)
        if runner is None:
            side = self._wanted[number][0]
            runner = self._runners[number] = SlotRunner(self._worker, side, number)
        return runner

    async def _prepare(self, slots: Iterable[SlotNumber]) -> None:
        """Connect for slots that are being handed over, while their owners drain them."""

        async def one(runner: SlotRunner) -> None:
            with suppress(MirrorfleetError):  # it will meet the same again, and say so
                await taking.prepare(runner)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._membership.confirm())  # its connection is needed, too
            for number in self._wanted.keys() & slots:
                group.create_task(one(self._runner(number)), name=f"prepare:{number}")

    async def _run(self, runner: SlotRunner, stop: Stop) -> None:
        await runner.run(stop)
        self._worker.markers.idle(runner.number)
        if self._is_ending:
            return  # its last progress is still to be told
        del self._stops[runner.number]
        if not runner.is_lost:
            # what another worker copies now is not ours to tell of
            runner.slot.forget_all()
            runner.unstarted.clear()
        self._slots.ended(runner.number, End.FENCED if runner.is_lost else End.DRAINED)
        self._membership.wake()

    def _leave(self, number: SlotNumber) -> None:
        """The group gave a slot of ours to another worker."""
        stop = self._stops.get(number)
        if stop is None:
            self._slots.ended(number, End.DRAINED)
        else:
            self._runners[number].left_in = self._membership.generation
            stop.set()

    async def _watch(self, slots: Iterable[SlotNumber], generation: int) -> None:
        """Look for the releases of slots; without them the owners are fenced after a while."""
        tail = PartitionTail(self._worker.target, self._topic)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._follow(tail, frozenset(slots), generation)
        except TimeoutError:
            _log.info("not all slots were released", extra=fields(generation=generation))
        except ExceptionGroup as error:
            if not is_ours(error):
                raise
            _log.info("not all slots were released", extra=fields(error=describe(error)))
        finally:
            tail.close()

    async def _follow(
        self, tail: PartitionTail, slots: frozenset[SlotNumber], generation: int
    ) -> None:
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(self._look_at(tail, slot)) for slot in slots]
            await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            left = set(slots)
            while left:
                if not tail.next_offsets:
                    await asyncio.sleep(RELEASE_WAIT_MS / 1000)
                    continue
                records = await tail.poll(deadline_s=PATIENCE_S, max_wait_ms=RELEASE_WAIT_MS)
                for slot in _released(records, generation):
                    left.discard(slot)
                    self._slots.released(slot)
                    self._membership.wake()

    async def _look_at(self, tail: PartitionTail, slot: SlotNumber) -> None:
        """Begin where the release may be; each slot for itself, for one may have no leader now."""
        at = TopicPartition(self._topic, slot)
        with suppress(MirrorfleetError):  # the time decides
            start, end = await log_bounds(self._worker.target, at)
            tail.start(slot, max(start, end - LOOK_BACK))


def _released(records: Iterable[ControlRecord], generation: int) -> list[SlotNumber]:
    """The slots whose owners say there that they gave them away for this generation or later."""
    entries = [(each.partition, positions.decode(each.key, each.value)) for each in records]
    return [
        SlotNumber(number)
        for number, entry in entries
        if isinstance(entry, Released) and entry.generation >= generation
    ]
