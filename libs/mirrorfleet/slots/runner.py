"""The run of one slot: take it, copy, and after trouble begin again at the last commit.

Only this file decides what an error means for the slot; `sending`, `fetching`, `taking` raise.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import Fault
from mirrorfleet.copying.lifecycle import SlotState, moved
from mirrorfleet.copying.limits import Limits
from mirrorfleet.copying.schedule import Depth, Setbacks
from mirrorfleet.copying.slot import Slot
from mirrorfleet.core.errors import ENDING, FencedError, MirrorfleetError, ungrouped
from mirrorfleet.core.ids import Link, PartitionIdentity, SlotNumber, TopicId, TopicPartition
from mirrorfleet.kafka.producer import ProduceLane
from mirrorfleet.kafka.together import unless_cancelled
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.positions import Position
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import diverting, entries, healing, leaving, ledger, quarantine, taking
from mirrorfleet.slots.aborting import aborted
from mirrorfleet.slots.fencing import NO_MEMBER
from mirrorfleet.slots.fetching import Lanes
from mirrorfleet.slots.freshness import Freshness
from mirrorfleet.slots.holding import HeldBack
from mirrorfleet.slots.mending import Mender
from mirrorfleet.slots.outgoing import AbortError, ControlEntry
from mirrorfleet.slots.reach import Reach
from mirrorfleet.slots.scouting import Scout
from mirrorfleet.slots.sending import Sender
from mirrorfleet.slots.settling import Doubts
from mirrorfleet.slots.sparing import Spare
from mirrorfleet.slots.untaken import Untaken
from mirrorfleet.slots.waits import Bell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.transaction import Transaction
    from mirrorfleet.core.error_codes import ErrorCode
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.formats import Formats
    from mirrorfleet.records.segments import Segment
    from mirrorfleet.runtime.lifecycle import Stop
    from mirrorfleet.slots.worker import SourceSide, Worker

LOOK_AGAIN_S: Final = 2.0
"""Between two looks at partitions that are faulted or whose start cannot be read."""
ANSWER_S: Final = 5.0
"""Time for a produce answer beyond the broker's own time-out; then the outcome is unknown."""

_log = logger(__name__)


class SlotRunner:
    """One slot of one link, from the first fencing to the release."""

    def __init__(self, worker: Worker, side: SourceSide, number: SlotNumber) -> None:
        self.number = number
        self.link: Link = side.link
        self.fleet = worker.fleet
        self.source, self.sources = side.cluster, side.leaders
        self.source_principal, self.target_principal = side.principal, worker.principal
        self.target, self.targets = worker.target, worker.targets
        self.settings = worker.settings
        self.commits = worker.settings.commits
        self.clock, self.dice, self.freshness = worker.clock, worker.dice, Freshness(worker.clock)
        self.budget, self.markers, self.owner = worker.budget, worker.markers, worker.owner
        self.meters, self.seats = side.meters, side.seats
        room = worker.settings.partition_queue_bytes
        self.slot = Slot(number, worker.budget, queue_bytes=room, urgency=worker.urgency)
        self.entries: dict[PartitionIdentity, CatalogPartition] = {}
        self.unstarted: dict[PartitionIdentity, CopyPartition] = {}
        self.positions_id: TopicId | None = None
        self.state, self.taken_at = SlotState.WAITING, 0.0
        self.stopping, self.trouble = False, ""
        self.left_in: int | None = None  # the generation that gave the slot to another member
        self.prepared: taking.Prepared | None = None
        self.ended = asyncio.Event()
        self.tasks: asyncio.TaskGroup | None = None
        self.mender, self.scout, self.doubts = Mender(self, worker), Scout(self), Doubts(self)
        self.limits, self.wedges, self.reach = Limits(), quarantine.Wedges(self), Reach(self)
        self.untaken, self.held_back, self.spare = Untaken(self), HeldBack(self), Spare(self)
        self.depth, self.setbacks = Depth(worker.settings.requests_in_flight), Setbacks()
        self.allowances = worker.allowances
        self._worker = worker
        self._wake, self._room, self._routes = Bell(), Bell(), Bell()
        self._entries_changed = False
        self.targets.on_change(self._routes.ring)
        self.sources.on_change(self._routes.ring)

    # -- what the worker says

    def assign(self, entries: dict[PartitionIdentity, CatalogPartition]) -> None:
        """The catalog's partitions of this slot, all of them; their leaders are asked for."""
        self.entries = entries
        self.look_at_entries()

    def look_at_entries(self) -> None:
        """Some that are not copied yet may be by now."""
        self._entries_changed = True
        self.wake()

    async def run(self, stop: Stop) -> None:
        """Hold the slot until `stop`, or until another owner takes it (then the state is LOST).

        On `stop` the open transaction is finished. Each take needs the word of the coordinator of
        the group at that moment: after any trouble we may have slept through a replacement.
        """
        self.stopping, self.left_in = False, None
        self.wedges.forget()
        self.spare.drop()
        self.doubts.begin()
        self.ended.clear()
        stop.on_set(self._stop)
        self.slot.forget_all()  # another worker may have copied on
        for kept in (self.slot.left, self.slot.remembered, self.slot.ends):
            kept.clear()
        self.move(SlotState.WAITING)
        while not (stop.is_set() or self.is_lost):
            try:
                if self._goes_on_at_once or await self.confirm():
                    await self._hold(stop)
                else:
                    self.setbacks.another(self.clock.monotonic())
                    self.trouble = NO_MEMBER
            except ENDING:
                raise
            except FencedError as error:
                self._fenced(error)
            except MirrorfleetError as error:
                self._interrupted(error)
            if not (stop.is_set() or self.is_lost):
                await stop.wait_at_most(self.setbacks.wait_s(self.dice.uniform(0, 1)))
        self.wedges.forget()
        self.spare.drop()
        if not self.is_lost:
            self.move(SlotState.RELEASED)
        self.ended.set()

    async def confirm(self) -> bool:
        """Whether the coordinator of the group says now that we are a member."""
        return await self._worker.confirm()

    @property
    def _goes_on_at_once(self) -> bool:
        """With an id that is taken nobody is fenced; who left partitions behind has just asked."""
        return bool(self.wedges.left_behind) and self.spare.is_taken

    @property
    def is_lost(self) -> bool:
        """Whether another owner has the slot, as far as we know."""
        return self.state is SlotState.LOST

    def _stop(self) -> None:
        self.stopping = True
        self.wake()

    async def _hold(self, stop: Stop) -> None:
        self.doubts.closed()
        take = diverting.divert if self.wedges.left_behind else taking.take
        if (sender := await stop.unless(take(self))) is None:
            return  # another one may have the slot by now
        self.doubts.renew()
        self.trouble = ""
        self._worker.event(EventKind.SLOT_TAKEN, self.link, detail=f"slot {self.number}")
        try:
            with ungrouped(_DoneError):
                async with asyncio.TaskGroup() as group:
                    self.tasks = group
                    others = (
                        group.create_task(Lanes(self, group).keep(), name=f"lanes:{self.number}"),
                        group.create_task(self.wedges.watch(sender), name=f"wedge:{self.number}"),
                        group.create_task(self.spare.keep(), name=f"spare:{self.number}"),
                    )
                    await self._copy(sender, stop)
                    for task in others:
                        task.cancel()
                    await self._release(sender)
                    raise _DoneError
        finally:
            self.tasks = None
            sender.close()
            self.slot.rewind()

    async def _release(self, sender: Sender) -> None:
        if self.left_in is not None:
            released = entries.release_entry(self, self.left_in)
            self.left_in = None
            sender.check_epoch()
            await self.doubts.settle(sender)  # it may have come to its end by an abort
            await sender.commit_control([released])

    async def _copy(self, sender: Sender, stop: Stop) -> None:
        is_undone = False
        looked_at = self.clock.monotonic()
        while not (self.stopping and is_undone):  # what was taken back is the next owner's to copy
            sender.check_epoch()
            if not await self.doubts.settle(sender) and not self.stopping:
                continue
            try:
                await self._admit_new(sender)
                if await sender.transact():
                    is_undone = False
                else:
                    self.markers.idle(self.number)
                if self.stopping:
                    return
                now = self.clock.monotonic()
                if now - looked_at > LOOK_AGAIN_S:
                    looked_at = now
                    healing.look_again(self, now)
                    taking.check_positions(self)
                self.wedges.end_if_healed()
                if now - sender.committed_at > taking.rest_s(self):
                    await self.keep_alive(sender)
                await self.mender.work(sender)
            except AbortError as error:
                is_undone = True
                await aborted(self, sender, error)
                self.setbacks.another(self.clock.monotonic())
                await stop.wait_at_most(self.setbacks.wait_s(self.dice.uniform(0, 1)))
                continue
            if not self.slot.ready:
                await self.woken(1.0)

    async def _admit_new(self, sender: Sender) -> None:
        waits = any(healing.may_start(self, each) for each in self.unstarted)
        if not (self._entries_changed or waits or leaving.is_untold(self)):
            return
        self._entries_changed = False  # before it is awaited: they may change meanwhile
        try:
            await taking.follow_entries(self, sender)
        except BaseException:
            self._entries_changed = True
            raise
        self._routes.ring()

    async def keep_alive(self, sender: Sender) -> None:
        """Commit, which only the owner can: all positions, if those in the log may be gone."""
        await sender.commit_control(entries.of_a_keep_alive(self, sender.producer))

    # -- trouble

    def _fenced(self, error: FencedError) -> None:
        """Whether we take it again is for the group to say, not for us."""
        self.wedges.forget()
        self.meters.lost(error)
        self.trouble = str(error)
        _log.warning("fenced", extra=self._fields(error))
        self.move(SlotState.LOST)
        self._worker.event(EventKind.SLOT_LOST, self.link, detail=f"slot {self.number}: {error}")

    def _interrupted(self, error: MirrorfleetError) -> None:
        unless_cancelled()
        if not isinstance(error, quarantine.WedgedError):  # what is in the way is known
            self.setbacks.another(self.clock.monotonic())
        self.trouble = str(error)
        _log.warning("slot interrupted", extra=self._fields(error))
        self.move(SlotState.WAITING)
        self.targets.ask()

    def _fields(self, error: BaseException) -> dict[str, object]:
        return fields(link=str(self.link), slot=self.number, error=str(error))

    def move(self, state: SlotState) -> None:
        """Change the state of the slot."""
        self.state = moved(self.state, state)
        self.untaken.moved(state)

    # -- what sending, fetching and taking ask for

    @property
    def transactional_id(self) -> str:
        """`mirrorfleet.<fleet>.<source>.<n>`, or the spare one beside it."""
        return self.wedges.id_in_use

    @property
    def transaction_version(self) -> TransactionVersion:
        """Decided once for the target cluster."""
        return self._worker.version

    @property
    def formats(self) -> Formats:
        """What is written, by the fleet's format level."""
        return self._worker.formats

    def control_partition(self, kind: ControlKind) -> TopicPartition:
        """The slot's partition of a control topic."""
        return TopicPartition(control_topic(self._worker.fleet, kind), self.number)

    def control_entries(
        self, positions: Sequence[Position], segment: Segment | None
    ) -> list[ControlEntry]:
        """Positions, and the segment when there is one, as batches to send."""
        return ledger.control_entries(self, positions, segment)

    def reroute(self) -> None:
        """Partitions may be fetched from other brokers now."""
        self._routes.ring()

    async def produce_lane(self, node: int, name: str = "") -> ProduceLane:
        """A new produce connection of this slot to a target broker; with a name for that id, which
        is not in use yet.

        Raises: AbortError when one was lost in a transaction: its broker may have left others open.
        """
        if not name and self.doubts.lost(node):
            raise AbortError(f"the connection to target broker {node} was lost")
        connection = await self.target.connect(node, purpose=f"produce-{self.number}")
        if not name:
            self.doubts.connected(node)
        return ProduceLane(
            connection,
            transactional_id=name or self.transactional_id,
            transactions=self._worker.version,
            deadline_s=ANSWER_S,
        )

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.ring()

    def queues_fell(self) -> None:
        """Batches left their queues: there may be room to fetch more."""
        self._room.ring()

    async def woken(self, at_most_s: float) -> None:
        """Wait for something to send, an answer, or the time."""
        await self._wake.heard(at_most_s)

    async def room(self, at_most_s: float) -> None:
        """Wait until queues may have room again."""
        await self._room.heard(at_most_s)

    async def routes_changed(self, at_most_s: float) -> None:
        """Wait for new partitions or leaders."""
        await self._routes.heard(at_most_s)

    def committed(
        self, transaction: Transaction, positions: Sequence[Position], commit_s: float
    ) -> None:
        """Book a commit."""
        self.trouble = ""
        self.depth.committed()
        self.setbacks.over()
        self.markers.committed(self.number, len(positions))
        self.meters.committed(transaction, commit_s, self.clock.now_ms())
        self._room.ring()
        for partition, touch in transaction.touched.items():
            partition.last_timestamp = max(partition.last_timestamp, touch.last_timestamp)
            self._worker.recovered(self.link, partition)
        if dropped := ledger.forget_drops(self, positions):
            self.meters.dropped("key-missing", dropped)

    def stop_partition(self, partition: CopyPartition, fault: Fault) -> None:
        """A partition stands still; its neighbours go on."""
        self.slot.fault(partition, fault, self.clock.monotonic())
        self.report_fault(partition)

    def report_fault(self, partition: CopyPartition) -> None:
        """Say once that a partition stands still."""
        self._worker.faulted(self.link, partition)

    def retry(self, partition: CopyPartition) -> None:
        """Fetch a partition that stood still again; nothing of it is in an open transaction."""
        self.slot.heal(partition)
        self._routes.ring()

    def source_trouble(self, error: MirrorfleetError) -> None:
        """A fetch connection is lost: leaders may have moved."""
        _log.warning("fetching is interrupted", extra=self._fields(error))
        self.trouble = str(error)
        self.sources.ask()

    def source_moved(self, partition: CopyPartition, code: ErrorCode) -> None:
        """The source says that a partition is elsewhere, or nowhere."""
        self.sources.ask()
        healing.judge_absence(self, partition, code)

    def examine(self, partition: CopyPartition) -> None:
        """Find out, beside the fetching, whether the source lost what we want."""
        if self.tasks is None:
            return
        look = healing.examine(self, partition)
        try:
            self.tasks.create_task(look, name=f"examine:{partition.entry.rule}")
        except RuntimeError:  # the slot ends, which a lane of several connections learns last
            look.close()


class _DoneError(Exception):
    """Raised to end the tasks of a slot when copying ended as asked."""
