"""One transaction of a slot, as bookkeeping: what was sent, what was acknowledged, what to commit.

    data batches, all acknowledged -> positions and one segments record, acknowledged -> EndTxn

The order of answers is the order of sending within a partition: one produce connection serves a
slot and broker, and where a leader moves the new one gets nothing before the old one has answered.
What the coordinator could not add to the transaction goes out again, and is alone until then: with
several brokers a partition has one batch without an answer before its first was appended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.records.positions import Position
from mirrorfleet.records.segments import Run, Segment

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition, Queued


class SpoiledError(MirrorfleetError):
    """Raised when a transaction must not be committed: the source turns out to have aborted what it
    copies, or some of it has no answer.
    """

    retriable = True


class TargetBehindError(MirrorfleetError):
    """Raised when the target appended below the offset that it had already given: it lost data."""

    def __init__(self, partition: CopyPartition, fault: Fault) -> None:
        super().__init__(str(fault))
        self.partition = partition
        self.fault = fault


@dataclass(slots=True)
class OpenRun:
    """A run that grows while source and target offsets both continue."""

    source_start: SourceOffset
    source_end: SourceOffset
    target_start: TargetOffset
    count: int = 0
    holes: list[tuple[SourceOffset, int]] = field(default_factory=list)
    payloads: list[tuple[int, int]] = field(default_factory=list)

    def frozen(self) -> Run:
        """The record form."""
        return Run(
            source_start=self.source_start,
            source_end=self.source_end,
            target_start=self.target_start,
            holes=tuple(self.holes),
            payloads=tuple(self.payloads),
        )


@dataclass(slots=True)
class Touch:
    """What the transaction did to one partition."""

    next_target: TargetOffset
    sent: deque[Queued] = field(default_factory=deque)
    node: int = -1
    """The broker that what is in `sent` went to."""
    runs: list[OpenRun] = field(default_factory=list)
    records: int = 0
    size: int = 0
    acked_to: SourceOffset | None = None
    acked_epoch: int = -1
    last_timestamp: int = -1


class Transaction:
    """From the first produce to the positions that a commit makes true."""

    __slots__ = ("has_rivals", "opened_at", "sent_bytes", "touched", "unacknowledged")

    def __init__(self, opened_at: float) -> None:
        self.opened_at = opened_at
        self.touched: dict[CopyPartition, Touch] = {}
        self.has_rivals = False
        """Whether several brokers add partitions to it (v2): all but one may be refused."""
        self.sent_bytes = 0
        self.unacknowledged = 0

    def sent(self, partition: CopyPartition, queued: Queued, now: float, node: int) -> None:
        """A batch of `partition` left for a broker of the target."""
        touch = self.touched.get(partition)
        if touch is None:
            touch = self.touched[partition] = Touch(partition.committed.next_target)
        queued.sent_at, touch.node = now, node
        touch.sent.append(queued)
        self.sent_bytes += queued.batch.size
        self.unacknowledged += 1

    def must_wait(self, partition: CopyPartition, node: int) -> bool:
        """Whether something of the partition must be answered before more of it goes to a broker:
        by another one, or because it may have to be sent again (`is_alone`).

        Brokers that add partitions to one transaction at the same time are refused, all but one
        (TransactionCoordinator.handleAddPartitionsToTransaction).
        """
        touch = self.touched.get(partition)
        if touch is None or not touch.sent:
            return False
        return touch.node != node or (self.has_rivals and touch.acked_to is None)

    def is_alone(self, partition: CopyPartition) -> bool:
        """Whether its only batch so far has no answer: refused before it was appended, it can be
        sent as it is.
        """
        touch = self.touched[partition]
        return touch.acked_to is None and len(touch.sent) == 1

    def acknowledged(self, partition: CopyPartition, base_offset: int) -> Queued:
        """The oldest batch of `partition` was appended at `base_offset`.

        Raises:
            TargetBehindError: the offset is below one that the target gave us before.
        """
        touch = self.touched[partition]
        queued = touch.sent.popleft()
        self.unacknowledged -= 1
        batch = queued.batch
        queued.lease.done()
        if base_offset < touch.next_target:
            raise TargetBehindError(
                partition,
                Fault(
                    FaultReason.TARGET_TRUNCATED,
                    batch.first,
                    f"the target appended at {base_offset}, below {touch.next_target} that it gave"
                    " before: records that were acknowledged are gone from the target",
                ),
            )
        _extend(touch, queued, TargetOffset(base_offset))
        return queued

    def positions(self, now_ms: int, moved: list[CopyPartition]) -> list[Position]:
        """What to commit: every touched partition, and those that moved on without data.

        Raises: SpoiledError.
        """
        self.check()
        found = [
            _position(partition, touch, now_ms)
            for partition, touch in self.touched.items()
            if touch.acked_to is not None
        ]
        return found + [
            _position(partition, Touch(partition.committed.next_target), now_ms)
            for partition in moved
            if partition not in self.touched and not partition.queue
        ]

    def check(self) -> None:
        """Whether it may be committed still. Raises: SpoiledError."""
        spoiled = [partition.target for partition in self.touched if partition.spoiled]
        if spoiled:
            raise SpoiledError(f"{spoiled[0]}: the source aborted what was copied")
        if self.unacknowledged:
            raise SpoiledError(f"{self.unacknowledged} batches have no answer")

    def segment(self, slot: SlotNumber, now_ms: int) -> Segment | None:
        """The runs of this transaction, or None when it copied nothing."""
        runs = tuple(
            (partition.identity, tuple(run.frozen() for run in touch.runs))
            for partition, touch in self.touched.items()
            if touch.runs
        )
        return Segment(slot=slot, time_ms=now_ms, runs=runs) if runs else None

    def abandon(self) -> None:
        """Give the memory of unacknowledged batches back; the transaction is lost."""
        for touch in self.touched.values():
            while touch.sent:
                touch.sent.popleft().lease.done()
        self.unacknowledged = 0


def _extend(touch: Touch, queued: Queued, base_offset: TargetOffset) -> None:
    batch = queued.batch
    run = touch.runs[-1] if touch.runs else None
    if run is None or run.source_end != batch.first or run.target_start + run.count != base_offset:
        run = OpenRun(batch.first, batch.first, base_offset)
        touch.runs.append(run)
    run.source_end = batch.next_offset
    run.count += batch.count
    run.holes.extend(batch.holes)
    run.payloads.append((batch.count, batch.payload_crc))
    touch.next_target = TargetOffset(base_offset + batch.count)
    touch.records += batch.count
    touch.size += batch.size
    touch.acked_to = batch.next_offset
    touch.acked_epoch = batch.leader_epoch
    touch.last_timestamp = max(touch.last_timestamp, batch.max_timestamp)


def _position(partition: CopyPartition, touch: Touch, now_ms: int) -> Position:
    """Where the partition stands after this transaction.

    With an empty queue that is all that was walked, skipped batches included; otherwise the end
    of the last batch sent, and what was skipped behind it is walked again after a restart.
    """
    old = partition.committed
    queue_empty = not partition.queue or touch.acked_to is None
    return Position(
        identity=partition.identity,
        next_source=partition.walked_to if queue_empty else touch.acked_to or old.next_source,
        leader_epoch=partition.walked_epoch if queue_empty else touch.acked_epoch,
        next_target=touch.next_target,
        records=old.records + touch.records,
        bytes=old.bytes + touch.size,
        time_ms=now_ms,
    )
