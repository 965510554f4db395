from __future__ import annotations

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.copybatch import A_BATCH, A_HOLE
from mirrorfleet.wire.merging import MERGE_UP_TO
from tests.unit.copying.making import BIG, fetched, give, partition_of, slot
from tests.unit.wire.batches import ZSTD, batch_of, some


def test_tiny_uncompressed_batches_of_one_partition_are_merged() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"] * 2), (2, [b"b"] * 2), (4, [b"c"])), end=5)

    batch = made.next_batch(partition).batch

    assert (batch.first, batch.next_offset, batch.count) == (0, 5, 5)
    assert not made.ready
    assert partition.queued_bytes == 0


def test_merging_keeps_the_hole_between_batches() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"] * 2), (5, [b"b"])), end=6)

    batch = made.next_batch(partition).batch

    assert (batch.first, batch.next_offset, batch.count) == (0, 6, 3)
    assert batch.holes == ((2, 3),)


def test_tiny_compressed_batches_are_merged_and_their_frame_is_given_back() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    frame = fetched((0, [b"a"]), (1, [b"b"]), (2, [b"c"] * 2), codec=Codec.LZ4)
    give(made, partition, frame, end=4)

    queued = made.next_batch(partition)

    assert (queued.batch.attributes, queued.batch.count) == (Codec.LZ4, 4)
    assert budget.used == queued.batch.size + A_BATCH
    assert not made.ready
    assert partition.queued_bytes == 0


def test_a_tiny_batch_that_cannot_be_read_goes_alone_and_the_others_keep_their_place() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"] * 2), (2, [b"b"] * 2), (4, [b"c"])), end=5)
    lying = partition.queue[1].batch
    lying.payload = b"\xff" * len(lying.payload)

    first = made.next_batch(partition).batch

    assert first.first == 0
    assert [q.batch.first for q in partition.queue] == [2, 4]
    assert partition.queued_bytes == sum(q.batch.size for q in partition.queue)
    assert made.ready


def test_large_batches_are_not_merged_where_a_request_is_large_anyway() -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [BIG]), (1, [BIG])), end=2)

    assert made.next_batch(partition).batch.count == 1
    assert made.ready


def test_large_batches_are_merged_where_the_request_has_room_and_memory_has_it_too() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, fetched(*((offset, [BIG]) for offset in range(6))), end=6)

    assert made.next_batch(partition, share=2 * len(BIG) + 1000).batch.count == 2
    used = budget.used
    budget.change((1 << 20) - used - 2 * len(BIG))
    assert made.next_batch(partition, share=2 * len(BIG) + 1000).batch.count == 1
    assert partition.queued_bytes == sum(q.batch.size for q in partition.queue)


def test_merged_memory_is_given_back_when_the_batch_is_done() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"] * 2), (2, [b"b"])), end=3)

    queued = made.next_batch(partition)
    queued.lease.done()

    assert budget.used == 0


def test_what_is_known_of_small_batches_counts_as_memory_until_their_frame_is_free() -> None:
    """Of one-record batches that are compressed, and of holes, it is most of what they take."""
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    frame = fetched(*((offset, [BIG]) for offset in range(3)))
    give(made, partition, frame, end=3)

    assert budget.used == len(frame) + 3 * A_BATCH
    while made.ready:
        made.next_batch(partition).lease.done()
    assert budget.used == 0


def test_holes_of_batches_that_were_made_anew_count_as_memory() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    compacted = batch_of([each for each in some(40) if each.offset % 2 == 0], codec=ZSTD)
    give(made, partition, compacted, end=40)

    (queued,) = partition.queue
    assert len(queued.batch.holes) == 19
    assert budget.used == queued.batch.size + A_BATCH + 19 * A_HOLE
    queued.lease.done()
    assert (budget.used, budget.beside) == (0, 0)


def test_what_is_known_of_batches_does_not_keep_them_from_being_put_together() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    tiny = fetched(*((offset, [b"a"] * 2) for offset in range(0, 3_000, 2)))
    give(made, partition, tiny, end=3_000)

    assert budget.used > budget.limit
    assert made.next_batch(partition).batch.count == 3_000


def test_without_memory_for_it_tiny_batches_are_not_merged() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"] * 2), (2, [b"b"])), end=3)
    budget.change((1 << 20) - MERGE_UP_TO)

    assert made.next_batch(partition).batch.count == 2
    assert made.ready


def test_batches_of_one_record_are_gathered_at_once_and_keep_their_own_bytes_and_no_frame() -> None:
    budget = MemoryBudget(1 << 20)
    made = slot(budget=budget)
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"a"]), (1, [b"b"]), (2, [b"c"])), end=3)

    (queued,) = partition.queue
    assert (queued.batch.first, queued.batch.next_offset, queued.batch.count) == (0, 3, 3)
    assert budget.used == queued.batch.size + A_BATCH
    queued.lease.done()
    assert budget.used == 0
