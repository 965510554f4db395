"""What goes into the next requests: one batch of each partition that waits, a request a broker.

A broker keeps a request in a map by partition, so a second batch of one partition would be lost
(`wire/k00_produce.py`). Small ones are put together before (`Slot.next_batch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.kafka.producer import ProduceEntry
from mirrorfleet.slots.opening import Request
from mirrorfleet.slots.outgoing import Outgoing
from mirrorfleet.wire.rewrite import stamp

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.transaction import Transaction
    from mirrorfleet.core.ids import ProducerIdentity, TopicId, TopicPartition
    from mirrorfleet.slots.opening import Able
    from mirrorfleet.slots.outgoing import Pipe
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.wire.copybatch import CopyBatch

OPENED_MOST: Final = 4_096
"""Records of compressed batches that are put together for a request, some 3 us each; then it goes,
and others have their turn."""
OPENED_A_BATCH: Final = 4
"""What opening a batch counts beside its records."""
GOOD_REQUEST: Final = 448 * 1024
"""Bytes of data from which on what a request costs by itself is little beside them."""


class Rounds:
    """Takes batches out of the queues of a slot."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self.opened = 0
        """As `OPENED_MOST` counts, in the last round."""

    def next(
        self, transaction: Transaction, producer: ProducerIdentity, able: list[Able]
    ) -> tuple[list[Request], list[Pipe]]:
        """A request for each broker that is known to take more, and the others."""
        most, requests, full = self._runner.settings.request_bytes, [], []
        self.opened = 0
        for node, pipe, partitions in able:
            if not (room := pipe.room_bytes):
                full.append(pipe)
                continue
            waiting = [  # a source may take all back
                one for one in partitions if one.sendable and not transaction.must_wait(one, node)
            ]
            batches = self._batches(transaction, node, waiting, min(most, room))
            if items := [self._item(producer, each, batch) for each, batch in batches]:
                pipe.claim(items)
                requests.append(Request(pipe, items))
        return requests, full

    def _batches(
        self, transaction: Transaction, node: int, partitions: list[CopyPartition], left: int
    ) -> list[tuple[CopyPartition, CopyBatch]]:
        """One of each partition, up to `left` bytes."""
        taken, opened = [], 0
        now = self._runner.clock.monotonic()
        next_batch, share = self._runner.slot.next_batch, GOOD_REQUEST // max(len(partitions), 1)
        for partition in partitions:
            waiting = len(partition.queue)
            queued = next_batch(partition, share, left)
            batch = queued.batch
            if batch.attributes and (others := waiting - len(partition.queue) - 1):
                opened += batch.count + OPENED_A_BATCH * others
            transaction.sent(partition, queued, now, node)
            taken.append((partition, batch))
            left -= batch.size
            if left <= 0 or opened >= OPENED_MOST:
                break
        self.opened += opened
        return taken

    def _item(
        self, producer: ProducerIdentity, partition: CopyPartition, batch: CopyBatch
    ) -> Outgoing:
        topic_id = partition.entry.identity.target_topic_id
        entry = stamped(self._runner, producer, partition.target, topic_id, batch)
        return Outgoing(partition, batch, entry)


def stamped(
    runner: SlotRunner,
    producer: ProducerIdentity,
    at: TopicPartition,
    topic_id: TopicId,
    batch: CopyBatch,
) -> ProduceEntry:
    """A batch with the header that it has on the target, next in the sequence of its partition."""
    sequence = runner.slot.take_sequence(at, batch.count)
    header = stamp(batch, producer, sequence, transactional=True)
    return ProduceEntry(at.topic, topic_id, at.partition, header, batch.payload)
