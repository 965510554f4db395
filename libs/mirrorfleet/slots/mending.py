"""What is done about partitions that stand still, between two transactions of their slot.

fault -> rule's word, or an operator's request -> step
    go on       position and ledger in one transaction, then fetch from there
    leave out   copied without the record; ledger with the commit that passes it
    begin anew  `sync` is asked for another incarnation; ledger with its first position

Neighbours notice nothing: a step is one small transaction, or only a new fetch offset.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import TARGET_LOSSES, Fault, FaultReason, Span
from mirrorfleet.copying.partition import LeftOut, limits_of
from mirrorfleet.copying.remedies import Remedy, Step, by_policy, by_request, passed_over
from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.records.commands import Action, Command
from mirrorfleet.records.incarnations import FROM_THE_START, start_at
from mirrorfleet.slots import ledger, requests, succession, target_loss
from mirrorfleet.slots.ledger import LedgerEntry
from mirrorfleet.slots.target_loss import ENDS_S
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import PartitionIdentity, TargetOffset
    from mirrorfleet.offsets.ahead import Compared
    from mirrorfleet.offsets.index import OffsetIndex
    from mirrorfleet.records.events import EventKind
    from mirrorfleet.records.segments import Run
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender
    from mirrorfleet.slots.worker import Worker

LOOK_S: Final = 0.5
ASK_AGAIN_S: Final = 30.0
ASKED_S: Final = 120.0
"""How long `sync` is asked for another incarnation, unless it is asked again. Meanwhile the
partition stands: it would be begun anew where it stood, whatever was copied since."""
PATIENT_S: Final = 20.0
"""A record that the target does not take waits so long before its rule leaves it out: the source
may take it since a moment ago, and `sync` brings the copy's configs in step, also after a kill."""
TRUSTED_S: Final = 3600.0
"""Then limits that did not change are waited for no more."""

_DECIDED: Final = (
    "its rule decides (on_source_loss: {}): `sync` is asked for another incarnation, and makes it;"
    " where `apply` is manual, `mirrorfleet apply` does"
)
_FOUND_BY_FETCHING: Final = frozenset(
    {FaultReason.RETENTION_OVERTOOK, FaultReason.SOURCE_TRUNCATED, FaultReason.SOURCE_CORRUPT}
)
"""Found where the partition stood. If an abort took that back, good records may come before it, or
the range begins earlier than was said: they are copied first, and it is found again."""


class Mender:
    """The faults of one slot."""

    def __init__(self, runner: SlotRunner, worker: Worker) -> None:
        self._runner = runner
        self._worker = worker
        self._asked: dict[PartitionIdentity, float] = {}
        self._losses: dict[PartitionIdentity, CopyPartition] = {}
        """Whose loss is to be looked into, the next one first."""
        self._looked_into: dict[PartitionIdentity, float] = {}
        self._limits: dict[PartitionIdentity, tuple[object, float]] = {}
        """What the target took, and since when that is waited for."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = -math.inf
        self.short_told: dict[PartitionIdentity, tuple[TargetOffset, TargetOffset]] = {}
        """Where the map ended, and the position, of what the ledger was told to be short."""

    # -- what others need of the worker for a loss

    def tell(self, kind: EventKind, detail: str) -> None:
        """Put an event about the slot into the ledger's queue."""
        self._worker.event(kind, self._runner.link, detail=detail)

    async def maps_of(self, wanted: Collection[PartitionIdentity]) -> OffsetIndex:
        """All that is stored of some partitions of this slot. Raises: MirrorfleetError."""
        return await self._worker.stored_map.maps_of(self._runner.number, wanted)

    async def compared_with(self, copied: Mapping[PartitionIdentity, TargetOffset]) -> Compared:
        """Positions beside the stored map. Raises: MirrorfleetError."""
        return await self._worker.stored_map.compared_with(self._runner.number, copied)

    async def runs_behind(self, identity: PartitionIdentity, first: TargetOffset) -> list[Run]:
        """The stored runs that end behind a target offset. Raises: MirrorfleetError."""
        return await self._worker.stored_map.runs_behind(self._runner.number, identity, first)

    def open_request(self, identity: PartitionIdentity) -> str:
        """The id of what an operator asks for a partition now; empty without."""
        found = self._worker.requests.open_for(identity, self._runner.clock.now_ms())
        return "" if found is None else found.id

    def answered(self, request: str) -> None:
        """As `Requests.answered`: it is being done, or refused."""
        self._worker.requests.answered(request)

    def awaits_sync(self, identity: PartitionIdentity) -> bool:
        """Whether another incarnation was asked for that may still be begun."""
        asked_at = self._asked.get(identity, -math.inf)
        return self._runner.clock.monotonic() - asked_at < ASKED_S

    # -- steps

    async def work(self, sender: Sender) -> None:
        """Take the steps that are allowed; call it between transactions.

        Raises:
            AbortError: a step's transaction did not come through; nothing has moved.
        """
        now = self._runner.clock.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        slot = self._runner.slot
        now_ms = self._runner.clock.now_ms()
        for partition in list(slot.partitions.values()):
            command = self._worker.requests.open_for(partition.identity, now_ms)
            if partition.fault is not None:
                await self._mend(sender, partition, partition.fault, command)
            elif command is not None and _is_copied(partition):
                requests.refuse(self._worker, command, "it is being copied; nothing is in its way")
        self._refuse_unstarted(now_ms)

    def _refuse_unstarted(self, now_ms: int) -> None:
        """No request moves what is left behind or not begun: who asks hears at once what holds it,
        and not after a minute that no worker answered.
        """
        for partition in self._runner.unstarted.values():
            command = self._worker.requests.open_for(partition.identity, now_ms)
            if command is not None:
                why = partition.fault or "its first offset is still being asked for"
                requests.refuse(self._worker, command, f"no request moves it: {why}")

    async def _mend(
        self, sender: Sender, partition: CopyPartition, fault: Fault, command: Command | None
    ) -> None:
        slot = self._runner.slot
        if partition.queue or partition in slot.open:
            return  # what came before the loss is still being sent
        if _is_unknown(fault):
            self._look_into(partition)
        stands_at = slot.settled(partition)
        if fault.reason in _FOUND_BY_FETCHING and stands_at != fault.offset:
            self._runner.retry(partition)
            return
        if fault.reason is FaultReason.SOURCE_RECREATED and fault.lost is not None:
            # an abort took something back: the range begins where it really stands
            fault = replace(fault, lost=Span(stands_at, max(fault.lost.end, stands_at)))
            partition.fault = fault
        step: Step | str | None = by_policy(fault, partition.entry.on_source_loss)
        if fault.reason.by_terms and self._may_be_taken(partition):
            step = None  # an operator's word counts at once
        if step is None and command is not None:
            end = await self._source_end(partition) if command.action is Action.SEEK else None
            step = by_request(fault, stands_at, command, end)
        if isinstance(step, str) and command is not None:
            requests.refuse(self._worker, command, step)
        elif isinstance(step, Step):
            if command is not None and step.remedy is Remedy.BEGIN_ANEW and not step.request:
                said = _DECIDED.format(partition.entry.on_source_loss)
                requests.refuse(self._worker, command, said)
            await self._take(sender, partition, fault, step)

    def _may_be_taken(self, partition: CopyPartition) -> bool:
        """Whether the target's configs may be about to follow the source's."""
        limits, now = limits_of(partition.entry), self._runner.clock.monotonic()
        known, since = self._limits.get(partition.identity, (None, now))
        if known != limits or now - since > TRUSTED_S:
            self._limits[partition.identity] = limits, now
            return True
        return now - since < PATIENT_S

    async def _take(
        self, sender: Sender, partition: CopyPartition, fault: Fault, step: Step
    ) -> None:
        match step.remedy:
            case Remedy.GO_ON:
                await self._go_on(sender, partition, fault, step)
            case Remedy.LEAVE_OUT:
                left = LeftOut(step.span, fault.reason, fault.detail, step.request)
                partition.left_out.append(left)
                self._worker.requests.answered(step.request)
                self._runner.retry(partition)
            case Remedy.BEGIN_ANEW:
                # what `sync` would refuse: a topic that is another one by now comes first
                await succession.check_identity(self._runner, partition)
                if partition.fault is fault:
                    self._ask(partition, fault, step)

    async def _go_on(
        self, sender: Sender, partition: CopyPartition, fault: Fault, step: Step
    ) -> None:
        runner = self._runner
        if not ledger.is_open(runner):
            return
        first_ms = last_ms = None
        if fault.reason is FaultReason.RETENTION_OVERTOOK:
            first_ms, last_ms = await ledger.times(runner, partition)
        told = LedgerEntry(
            step.span,
            fault.reason,
            fault.detail,
            step.request,
            first_time_ms=first_ms,
            last_time_ms=last_ms,
        )
        position = replace(
            partition.committed,
            next_source=step.span.end,
            leader_epoch=-1,
            time_ms=runner.clock.now_ms(),
        )
        event = ledger.gap(runner, partition.entry, told)
        await sender.commit_control(ledger.control_entries(runner, [position], None, [event]))
        self._worker.requests.answered(step.request)
        runner.slot.committed([position], runner.clock.monotonic())
        runner.retry(partition)

    async def _source_end(self, partition: CopyPartition) -> SourceOffset | None:
        """Where the source's log ends now; None when it does not say."""
        at = partition.entry.source
        try:
            found = await list_offsets(
                self._runner.source,
                {at: LATEST},
                isolation=Isolation.READ_UNCOMMITTED,
                deadline_s=ENDS_S,
            )
        except MirrorfleetError:
            return None
        end = found[at]
        return None if isinstance(end, BrokerError) else SourceOffset(end.offset)

    def _look_into(self, partition: CopyPartition) -> None:
        """One after the other: each look reads all that is stored of the slot."""
        now, tasks = self._runner.clock.monotonic(), self._runner.tasks
        if now - self._looked_into.get(partition.identity, -math.inf) > ASK_AGAIN_S:
            self._losses[partition.identity] = partition
        if tasks is not None and (self._looking is None or self._looking.done()):
            self._looking = tasks.create_task(self._look(), name="target losses")

    async def _look(self) -> None:
        while self._losses:
            identity, partition = next(iter(self._losses.items()))
            try:
                fault = partition.fault
                is_ours = self._runner.slot.partitions.get(identity) is partition
                if is_ours and fault is not None and _is_unknown(fault):
                    await target_loss.examine(self._runner, partition, fault)
            except MirrorfleetError:  # who is cancelled looks again at once, with the next hold
                self._was_looked_into(identity)
                raise
            self._was_looked_into(identity)

    def _was_looked_into(self, identity: PartitionIdentity) -> None:
        self._looked_into[identity] = self._runner.clock.monotonic()
        self._losses.pop(identity, None)

    def _ask(self, partition: CopyPartition, fault: Fault, step: Step) -> None:
        """Ask `sync` for another incarnation, again from time to time until it is there."""
        identity, now = partition.identity, self._runner.clock.monotonic()
        if now - self._asked.get(identity, -math.inf) < ASK_AGAIN_S:
            return
        self._asked[identity] = now
        now_ms = self._runner.clock.now_ms()
        at = FROM_THE_START if step.to is None else str(step.to)
        if (over := passed_over(fault, step)) is not None:
            at += f"; {over.first}..{over.end} of the source's new log is left out"
        self._worker.asked.append(
            Command(
                id=f"{partition.entry.source_topic}-{identity.partition}.{identity.incarnation}",
                action=Action.BEGIN_ANEW,
                identity=identity,
                link=self._runner.link,
                topic=partition.entry.source_topic,
                first=step.span.first,
                end=step.span.end,
                time_ms=now_ms,
                expires_ms=now_ms + int(ASKED_S * 1000),
                writer=self._runner.owner,
                start=FROM_THE_START if step.to is None else start_at(step.to),
                cause=step.cause or fault.reason,
                records=fault.records if step.span == fault.lost else None,
                request=step.request,
                detail=f"{fault.detail}; goes on at {at}",
            )
        )


def _is_copied(partition: CopyPartition) -> bool:
    """Whether nothing is in its way: who took the slot just now has not met yet what is."""
    return partition.reported is None and partition.source.last_stable >= 0


def _is_unknown(fault: Fault) -> bool:
    """Whether what the target lost is still to be found out."""
    return fault.reason in TARGET_LOSSES and fault.lost is None and fault.comparable
