"""The memory of one slot: its partitions, their queues and the sequences of its producer epoch.

Bytes come in through `answered`, batches go out through `next_batch`; the service does the I/O.
Whatever is not committed can be forgotten at any moment by `rewind`; a partition counts how often
it was, so that an answer that was asked for before is known as stale.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING

from mirrorfleet.copying.backlog import Backlog
from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.faults import Fault, FaultReason, reason_of
from mirrorfleet.copying.partition import (
    CopyPartition,
    Pace,
    Queued,
    begun_at,
    limits_of,
)
from mirrorfleet.copying.snapshots import Snapshots
from mirrorfleet.copying.urgency import NOTHING, RANK, STANDING_S, Urgency, rank
from mirrorfleet.copying.withheld import SHORT_S
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.wire.copybatch import bytes_beside
from mirrorfleet.wire.engine import merged, walk_fetched
from mirrorfleet.wire.merging import MERGE_UP_TO, UNLIMITED, goes_alone
from mirrorfleet.wire.rewrite import next_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mirrorfleet.copying.answer import Answer
    from mirrorfleet.copying.transaction import Touch
    from mirrorfleet.core.ids import (
        PartitionIdentity,
        SlotNumber,
        SourceOffset,
        TopicId,
        TopicPartition,
    )
    from mirrorfleet.records.positions import Fence, Position
    from mirrorfleet.wire.copybatch import CopyBatch, LateAbort


class Slot:
    """All partitions that one transactional id copies."""

    def __init__(
        self,
        number: SlotNumber,
        budget: MemoryBudget,
        *,
        queue_bytes: int,
        urgency: Urgency | None = None,
    ) -> None:
        """`urgency` is shared by the slots of a worker."""
        self.number = number
        self._urgency = urgency or Urgency()
        self.partitions: dict[PartitionIdentity, CopyPartition] = {}
        self.sequences: dict[TopicPartition, int] = {}
        self.known: dict[PartitionIdentity, Position] = {}
        """Positions read from the control topic, of partitions assigned or not."""
        self.snapshots = Snapshots()
        self.fence: Fence | None = None
        """An operator stopped the slot, as we read last."""
        self.ever_known: dict[PartitionIdentity, Position | None] = {}
        """Positions as they were once; None where something is known to have been copied."""
        self.ends: dict[PartitionIdentity, int] = {}
        """High watermarks seen last of partitions that are left; -1 where none was told."""
        self.remembered: dict[PartitionIdentity, CopyPartition] = {}
        """As they were when a producer id ended, until they are admitted again."""
        self.left: dict[PartitionIdentity, CopyPartition] = {}
        """The same of this hold alone: the ledger may have to be told how one of them ended."""
        self.open: Mapping[CopyPartition, Touch] = {}
        """Partitions with data in the open transaction, or in one that was not undone yet."""
        self._by_source: dict[tuple[TopicId, int], CopyPartition] = {}
        self._ready: dict[CopyPartition, None] = {}
        self._refusals: dict[PartitionIdentity, tuple[SourceOffset, int]] = {}
        self._budget, self._queue_bytes = budget, queue_bytes
        self._backlog = Backlog()

    # -- membership of partitions

    def admit(self, entry: CatalogPartition, position: Position) -> CopyPartition:
        """Begin to copy a partition from a committed position."""
        self.partitions[entry.identity] = partition = begun_at(entry, position)
        self._recall(partition)
        self.left.pop(entry.identity, None)
        self._by_source[entry.identity.source_topic_id, entry.identity.partition] = partition
        return partition

    def _recall(self, partition: CopyPartition) -> None:
        """Give back what refusals taught, unless the catalog or another owner went on since.

        Without it v1, where each abort is a new id, would be refused the same for ever.
        """
        left = self.remembered.pop(partition.identity, None)
        if left is None:
            return
        partition.resume(left)
        if left.entry != partition.entry:
            return
        partition.terms, partition.reported = left.terms, left.reported
        if self._refusals.get(partition.identity, (-1, 0))[0] >= left.committed.next_source:
            partition.held_until = left.held_until  # no other hold: what else it waits for is new
        partition.left_out, partition.aborts = left.left_out, left.aborts
        partition.forget_passed()
        if left.fault is not None and partition.walked_to <= left.fault.offset:
            partition.fault, partition.fault_since = left.fault, left.fault_since

    def dismiss(self, identity: PartitionIdentity) -> None:
        """Stop copying a partition; its position stays known."""
        partition = self.partitions.pop(identity, None)
        if partition is not None:
            self.known[identity] = partition.committed
            partition.rewind()
            self._ready.pop(partition, None)
            if partition.source.high_watermark >= 0:  # else another owner may have told it
                self.ends[identity] = partition.source.high_watermark
            at = (identity.source_topic_id, identity.partition)
            if self._by_source.get(at) is partition:  # not that of a later incarnation
                del self._by_source[at]

    def renew(self, entry: CatalogPartition) -> None:
        """The catalog changed what is said of a partition that we copy.

        Call it between transactions: new limits of the target may heal a fault, which rewinds.
        """
        partition = self.partitions[entry.identity]
        before, partition.entry = partition.entry, entry
        partition.spent_until = 0.0  # of another throttle, perhaps
        if limits_of(before) == limits_of(entry):
            return
        partition.take_anew()
        if partition.fault is not None and partition.fault.reason.by_terms:
            self.heal(partition)

    def forget_all(self) -> None:
        """Any new producer id discards the slot's memory: nothing of it may be trusted any more."""
        for identity, partition in list(self.partitions.items()):
            self.remembered[identity] = self.left[identity] = partition
            self.dismiss(identity)
        self.ever_known.update(self.known)
        self.known.clear()
        self.sequences.clear()
        self.snapshots.forget()

    def rewind(self) -> None:
        """After an abort: everything back to the last commit."""
        self.open = {}
        for partition in self.partitions.values():
            partition.rewind()
        self._ready.clear()
        self._urgency.note(self.number, NOTHING)
        self.snapshots.aborted()

    def find(self, topic_id: TopicId, partition: int) -> CopyPartition | None:
        """The partition by the source's topic id and number."""
        return self._by_source.get((topic_id, partition))

    # -- fetching

    def wanted(self, pace: Pace, now: float, queue_bytes: int | None = None) -> list[CopyPartition]:
        """Partitions to fetch on the connection of that pace: not held up, queue not full (at
        `queue_bytes`, or the slot's). Of those that catch up the most urgent of the whole worker.
        """
        found = [
            p
            for p in self.partitions.values()
            if p.pace is pace
            and p.fault is None
            and max(p.held_until, p.spent_until) <= now
            and p.entry.is_active
        ]
        if pace is Pace.CATCH_UP:
            moving = (p for p in found if p.reachable and now - p.progress_at < STANDING_S)
            unbound = (p.entry.priority for p in moving if p.entry.throttle is None)
            self._urgency.note(self.number, rank(unbound))
            turn = self._urgency.turn
            for waiting in (p for p in found if RANK[p.entry.priority] > turn):
                waiting.progress_at = now  # that is not to stand still
            found = [p for p in found if RANK[p.entry.priority] <= turn]
        for each in found if queue_bytes else ():  # who only looks around fetches nothing
            each.room = queue_bytes or 0
        full = queue_bytes or self._queue_bytes
        return [p for p in found if p.waiting_bytes < full]

    def waits(self, partition: CopyPartition) -> bool:
        """Whether its backlog is not fetched now, because the worker has a more urgent one."""
        behind = partition.pace is Pace.CATCH_UP
        return behind and RANK[partition.entry.priority] > self._urgency.turn

    def answered(
        self,
        partition: CopyPartition,
        buffer: bytes | bytearray,
        answer: Answer,
        lease: FrameLease,
        now: float,
    ) -> None:
        """Walk what came for one partition and queue it; a fault stops this partition alone."""
        partition.source, before = answer.source, partition.walked_to
        if answer.end > answer.start:
            walked = walk_fetched(
                buffer,
                answer.start,
                answer.end,
                partition.walked_to,
                [*answer.aborted, *partition.known_aborts],
                partition.terms,
                partition.undecided,
            )
            partition.undecided = walked.undecided
            if walked.undecided or partition.withheld:
                partition.withheld.heed(walked, partition.walked_to, answer.epoch, now)
            if walked.late and self._undone(partition, walked.late):
                return
            self._queue(partition, walked.batches, lease, now)
            partition.walk_to(walked, now)
            partition.dropped.extend(walked.dropped)
            partition.omitted += walked.omitted
            if (fault := walked.fault) is not None:
                self.fault(partition, Fault(reason_of(fault.kind), fault.offset, fault.detail), now)
        self._offer(partition)
        self._backlog.judge(partition, partition.walked_to - before, answer.end - answer.start)

    def _offer(self, partition: CopyPartition) -> None:
        """It is ready if it has something that may be sent, or that waits for a marker in vain."""
        may_be_sent = partition.sendable
        if not may_be_sent and partition.withheld and self._waits_in_vain(partition):
            partition.withheld.trust()
            may_be_sent = partition.sendable
        if may_be_sent:
            self._ready[partition] = None

    def _waits_in_vain(self, partition: CopyPartition) -> bool:
        """Whether it is not read on to its markers, or its log ends before them."""
        ends = partition.source
        is_over = partition.at_end and ends.last_stable == ends.high_watermark
        is_full = partition.waiting_bytes >= (partition.room or self._queue_bytes)
        return is_over or is_full or partition.fault is not None

    def trust(self, now: float) -> None:
        """Send what has waited for its markers for too long, the sooner where memory is short."""
        for partition in self.partitions.values():
            if withheld := partition.withheld:
                withheld.expire(now)
                is_short = withheld and not partition.sendable and self._budget.is_short
                if is_short and now - withheld.since >= SHORT_S:
                    withheld.trust()
                self._offer(partition)

    def _undone(self, partition: CopyPartition, late: Sequence[LateAbort]) -> bool:
        """Go back before what was aborted; False when the open transaction has it: never commit."""
        partition.learn(late)
        partition.spoiled = partition in self.open
        if not partition.spoiled:
            self.hold_back(partition, 0.0)
        return not partition.spoiled

    def _queue(
        self, partition: CopyPartition, batches: list[CopyBatch], frame: FrameLease, now: float
    ) -> None:
        views = [batch for batch in batches if isinstance(batch.payload, memoryview)]
        frame.hold(len(views), bytes_beside(views))
        queue, pace = partition.queue, partition.pace
        for batch in batches:
            lease = frame
            if not isinstance(batch.payload, memoryview):  # made anew: it keeps no frame
                lease = frame.another(batch.size, bytes_beside((batch,)))
            queue.append(Queued(batch, lease, now, pace))
            partition.queued_bytes += batch.size
        if batches and partition.first_timestamp < 0:
            partition.first_timestamp = batches[0].oldest_timestamp

    # -- faults

    def fault(self, partition: CopyPartition, fault: Fault, now: float) -> None:
        """Stop one partition; batches before the fault are still sent."""
        partition.fault, partition.fault_since = fault, now
        self._offer(partition)

    def hold_back(self, partition: CopyPartition, until: float) -> None:
        """Leave a partition out for a while; nothing of it may be in the open transaction."""
        partition.held_until = until
        partition.rewind()
        self._ready.pop(partition, None)

    def heal(self, partition: CopyPartition) -> None:
        """Look again: fetch from the last commit as if nothing had been refused."""
        partition.stand_no_longer()
        self.hold_back(partition, 0.0)

    def refused_size(self, partition: CopyPartition, batch: CopyBatch) -> Fault | None:
        """The target found a batch too large: cut smaller, or this is where to stop."""
        if batch.count > 1:
            partition.take(limit=batch.size // 2, null_keys=partition.terms.null_keys)
            return None
        detail = (
            f"one record makes a batch of {batch.size} bytes; the target topic"
            f" {partition.entry.target_topic} takes {partition.terms.max_batch_bytes}"
        )
        return Fault(FaultReason.RECORD_TOO_LARGE, batch.first, detail)

    def refused_again(self, partition: CopyPartition, batch: CopyBatch) -> int:
        """How often in a row the target has refused the batch at this offset."""
        offset, times = self._refusals.get(partition.identity, (batch.first, 0))
        times = times + 1 if offset == batch.first else 1
        self._refusals[partition.identity] = (batch.first, times)
        return times

    # -- sending

    @property
    def ready(self) -> bool:
        """Whether any batch waits to be sent."""
        return bool(self._ready)

    def ready_partitions(self) -> list[CopyPartition]:
        """Partitions with a queue, the longest waiting first."""
        return list(self._ready)

    def next_batch(
        self, partition: CopyPartition, share: int = 0, limit: int = UNLIMITED
    ) -> Queued:
        """Take a queue's head, merged with what follows where that is cheaper (`wire.merging`)."""
        queue = partition.queue
        head = queue.popleft()
        partition.queued_bytes -= head.batch.size
        del self._ready[partition]
        if queue and not goes_alone(head.batch, queue[0].batch, share):
            head = self._merged(partition, head, share, limit)
        self._offer(partition)  # to the end: the others first
        return head

    def _merged(self, partition: CopyPartition, head: Queued, share: int, limit: int) -> Queued:
        queue = partition.queue
        if not self._budget.has_room(max(MERGE_UP_TO, share)):
            return head
        run: Iterable[CopyBatch] = chain((head.batch,), (queued.batch for queued in queue))
        if (at := partition.withheld.at) is not None:
            run = takewhile(lambda batch: batch.next_offset <= at, run)
        if (found := merged(run, partition.terms, share, limit)) is None:
            return head
        taken = [head, *(queue.popleft() for _ in range(found.taken - 1))]
        partition.queued_bytes -= sum(queued.batch.size for queued in taken[1:])
        for queued in taken:
            queued.lease.done()
        lease = head.lease.another(found.batch.size, bytes_beside((found.batch,)))
        return Queued(found.batch, lease, head.fetched_at, head.pace)

    def take_sequence(self, at: TopicPartition, count: int) -> int:
        """The base sequence for `count` records of a target partition, in this producer epoch."""
        base = self.sequences.get(at, 0)
        self.sequences[at] = next_sequence(base, count)
        return base

    # -- commits

    def settled(self, partition: CopyPartition) -> SourceOffset:
        """Up to where everything is copied and committed, or was nothing to copy.

        That is further than the committed position while markers are all that came since.
        """
        if partition.queue or partition in self.open:
            return partition.committed.next_source
        return partition.walked_to

    def lag(self, partition: CopyPartition) -> int | None:
        """Offsets up to the last stable one that are not settled; None before the first fetch."""
        end = partition.source.last_stable
        return None if end < 0 else max(0, end - self.settled(partition))

    def moved_without_data(self, now: float, after_s: float) -> list[CopyPartition]:
        """Partitions whose position went on by skipping only, longer ago than `after_s`, or past so
        much that the ledger is to be told of that it is not fetched soon.
        """
        most = self._queue_bytes // 2
        return [
            p
            for p in self.partitions.values()
            if p.moved and not p.queue and (now - p.moved_at >= after_s or p.waiting_bytes > most)
        ]

    def committed(self, positions: Sequence[Position], now: float) -> None:
        """The coordinator confirmed the commit of these positions."""
        for position in positions:
            self.known[position.identity] = position
            partition = self.partitions.get(position.identity)
            if partition is not None:
                partition.commit(position)
                if partition.spoiled:
                    self.hold_back(partition, 0.0)
                if partition.left_out:
                    partition.forget_passed()
                partition.progress_at = now
                partition.moved_at = now
