"""A log that answers in pieces, as a far broker does, and a partition that is read in them."""

from __future__ import annotations

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.partition import CopyPartition, SourceEnds
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.stripes import Part, Piece, Stripes
from mirrorfleet.wire.batch import walk
from tests.unit.copying.making import fetched, identity, slot

VALUE = b"v" * 100


class Source:
    """A log of batches that answers as a broker does: from the batch with the offset, cut anywhere.

    `sizes` are the records of each batch; between two batches compaction may have left nothing.
    """

    def __init__(self, sizes: list[int], gaps: list[int] | None = None) -> None:
        self.batches: list[tuple[int, bytearray]] = []
        base = 0
        for number, size in enumerate(sizes):
            self.batches.append((base, fetched((base, [VALUE] * size))))
            base += size + (gaps[number % len(gaps)] if gaps else 0)
        self.end = end_of(self.batches[-1][1])

    def fetch(self, offset: int, max_bytes: int) -> bytearray:
        """The first batch is never cut (KIP-74)."""
        wanted = [batch for batch in self.batches if end_of(batch[1]) > offset]
        found = b"".join(batch for _, batch in wanted)
        return bytearray(found[: max(max_bytes, len(wanted[0][1]))])


def end_of(batch: bytearray) -> int:
    (header,) = walk(memoryview(batch))
    return header.next_offset


def made(source: Source) -> tuple[Slot, CopyPartition]:
    budget = MemoryBudget(1 << 30)
    copying = slot(budget=budget)
    partition = copying.partitions[identity()]
    partition.source = SourceEnds(source.end, source.end, 0)
    return copying, partition


def answer(source: Source, piece: Piece, max_bytes: int, budget: MemoryBudget) -> Part:
    buffer = source.fetch(piece.at, max_bytes)
    account = budget.account()
    account.resize(0, len(buffer))
    return Part(piece.at, buffer, 0, len(buffer), (), FrameLease(account, len(buffer)))


def deliver(copying: Slot, stripes: Stripes, piece: Piece, part: Part) -> None:
    stripes.answered(piece, part)
    deliver_in_turn(copying, stripes, piece.partition)


def deliver_in_turn(
    copying: Slot, stripes: Stripes, partition: CopyPartition, most: int = 1_000
) -> None:
    """So many parts at most: whoever delivers may have to wait."""
    for _ in range(most):
        if (each := stripes.in_turn(partition)) is None:
            return
        told = Answer(each.start, each.end, partition.source, each.aborted)
        copying.answered(partition, each.buffer, told, each.lease, 0.0)
        each.lease.done()
        if partition.fault is not None:
            stripes.drop(partition)


def plenty(_: CopyPartition) -> int:
    """Room in memory."""
    return 1 << 30


def queued(partition: CopyPartition) -> list[tuple[int, int]]:
    return [(each.batch.first, each.batch.next_offset) for each in partition.queue]


def offsets(partition: CopyPartition) -> list[int]:
    """Source offsets of the records that wait; those of one-record batches are gathered."""
    found = []
    for each in partition.queue:
        holes = {at + i for at, count in each.batch.holes for i in range(count)}
        found += [at for at in range(each.batch.first, each.batch.next_offset) if at not in holes]
    return found
