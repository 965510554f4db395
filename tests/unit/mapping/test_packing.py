"""The packer, step by step: killed at each of them and run again it gives the same archive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.mapping import packing
from mirrorfleet.mapping.blocks import live_blocks
from mirrorfleet.mapping.packing import Packed, Packer
from mirrorfleet.mapping.runs import read_maps
from mirrorfleet.mapping.store import Entry
from mirrorfleet.offsets import packing as planning
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.packing import GONE, Floor, Full
from mirrorfleet.records import archive
from mirrorfleet.records.archive import Block, BlockKey
from mirrorfleet.records.segments import Segment
from tests.unit.mapping.lists import DiedError, ListStore
from tests.unit.offsets.making import PARTITIONS, History, check_all, histories, run_of

SLOT = SlotNumber(3)


def segment(n: int) -> Segment:
    run = run_of(10 * n, 10 * n + 5, 6 * n)
    return Segment(SLOT, 1_000 + n, tuple((one, (run,)) for one in PARTITIONS[: n % 3 + 1]))


SEGMENTS = [segment(n) for n in range(9)]


async def pack_all(store: ListStore) -> None:
    packer = small_packer(store)
    while (await packer.pack(most_offsets=6)).left:
        pass


def small_packer(store: ListStore) -> Packer:
    return Packer(store, SLOT, full=Full(2, 100))


async def test_a_pass_writes_reads_back_and_frees_in_this_order() -> None:
    store = ListStore(SEGMENTS)
    done = await Packer(store, SLOT).pack(most_offsets=6)
    assert done == Packed(segments=3, blocks=3, removed=0, left=12)
    assert store.calls == [
        "bounds segments",
        "segments",
        "bounds archive",
        "archive",
        "write",
        "bounds archive",
        "archive",
        "archive",
        "free",
    ]
    assert store.kept == SEGMENTS[2:]  # by the newest one positions are seen to be in step


async def test_few_segments_are_left_for_later() -> None:
    store = ListStore(SEGMENTS)
    assert await Packer(store, SLOT).pack(at_least=19) == Packed(left=18)
    assert store.calls == ["bounds segments"]


async def test_the_newest_segment_stays_however_often_it_is_packed() -> None:
    store = ListStore(SEGMENTS)
    for _ in range(3):
        await Packer(store, SLOT).pack()
        assert store.kept == SEGMENTS[-1:]
    assert len(store.log) == len(await live_blocks(store, SLOT))  # nothing is written anew
    store.append(Segment(SLOT, 2_000, ()))  # which says nothing of any partition
    await Packer(store, SLOT).pack()
    assert store.kept[0] == SEGMENTS[-1]


async def test_nothing_to_pack_is_nothing_to_do() -> None:
    assert await Packer(ListStore([]), SLOT).pack() == Packed()


@pytest.mark.parametrize("lives", range(25))
async def test_killed_at_any_step_and_run_again_it_gives_the_same_archive(lives: int) -> None:
    whole = ListStore(SEGMENTS)
    await pack_all(whole)
    store = ListStore(SEGMENTS)
    store.lives = lives

    with pytest.raises(DiedError):
        await pack_all(store)
    store.lives = -1
    await pack_all(store)

    assert await live_blocks(store, SLOT) == await live_blocks(whole, SLOT)
    assert store.kept == SEGMENTS[-1:]


def appended(store: ListStore, *segments: Segment) -> None:
    for segment in segments:
        store.append(segment)


async def test_a_later_pass_reads_what_came_since_and_not_the_whole_archive() -> None:
    store = ListStore([segment(n) for n in range(60)])
    packer = small_packer(store)
    while (await packer.pack(most_offsets=2)).left:
        pass
    old = len(store.log)
    store.read.clear()
    store.append(segment(60))

    assert (await packer.pack()).segments == 2  # and the one that is kept

    # from the newest block of each partition on: each is in a segment of three at least
    assert old > 100
    assert min(store.read) >= old - 10


async def test_one_that_packs_on_after_another_one_did_loses_nothing() -> None:
    store = ListStore(SEGMENTS[:3])
    packer, other = small_packer(store), small_packer(store)
    await packer.pack()
    appended(store, *SEGMENTS[3:6])
    await other.pack()
    appended(store, *SEGMENTS[6:])
    await packer.pack()
    whole = ListStore(SEGMENTS)
    await pack_all(whole)

    mine = await read_maps(store, SLOT, PARTITIONS)
    theirs = await read_maps(whole, SLOT, PARTITIONS)
    assert [answers(mine, one) for one in PARTITIONS] == [
        answers(theirs, one) for one in PARTITIONS
    ]
    assert store.kept == SEGMENTS[-1:]


STEPS = st.lists(
    st.tuples(st.sampled_from(["one packs", "other packs", "compaction"]), st.integers(1, 3)),
    max_size=10,
)


@settings(max_examples=60)
@given(histories(), STEPS)
def test_two_that_pack_on_in_any_order_lose_nothing(
    made: History, steps: list[tuple[str, int]]
) -> None:
    async def packed() -> None:
        store = ListStore(made.segments)
        packers = {name: small_packer(store) for name in ("one packs", "other packs")}
        for name, segments in steps:
            if name == "compaction":
                store.compact()
            else:
                with suppress(CorruptBatchError):  # not where they were seen: read anew
                    await packers[name].pack(most_offsets=2 * segments)
            check_all(await read_maps(store, SLOT, PARTITIONS), made)
        await pack_all(store)
        check_all(await read_maps(store, SLOT, PARTITIONS), made)

    asyncio.run(packed())


def answers(index: OffsetIndex, identity: PartitionIdentity) -> list[object]:
    known = index.of(identity)
    return [] if known is None else [known.to_target(SourceOffset(at)) for at in range(100)]


async def test_a_block_that_is_not_where_it_was_seen_frees_nothing_and_all_is_read_anew() -> None:
    store = ListStore(SEGMENTS[:3])
    packer = small_packer(store)
    await packer.pack()
    # another one removed all, and compaction took the tombstones as well
    store.cleaned.update(range(len(store.log)))
    appended(store, *SEGMENTS[3:])

    with pytest.raises(CorruptBatchError, match="not where they were seen"):
        await packer.pack()
    assert store.kept == SEGMENTS[2:]

    await packer.pack()
    assert store.kept == SEGMENTS[-1:]


async def test_an_archive_that_was_made_anew_is_read_from_its_begin() -> None:
    store = ListStore(SEGMENTS)
    packer = small_packer(store)
    await packer.pack(most_offsets=6)
    store.log.clear()
    await packer.pack()
    known = await read_maps(store, SLOT, PARTITIONS)
    first = known.of(PARTITIONS[0])
    assert first is not None
    assert first.first == (20, 12)  # of the segment that was kept


async def test_a_key_alone_removes_no_block() -> None:
    packed = ListStore(SEGMENTS)
    await Packer(packed, SLOT).pack()
    store = ListStore(SEGMENTS)
    packer = Packer(store, SLOT)
    await packer.pack(most_offsets=6)
    before = set(await live_blocks(store, SLOT))
    # what it sees next covers all that there is, but has no bytes by then
    store.log += packed.log
    ghosts = range(len(store.log) - len(packed.log), len(store.log))
    store.vanish_after_a_read(ghosts)

    with pytest.raises(CorruptBatchError, match="not where they were seen"):
        await packer.pack()

    assert before <= set(await live_blocks(store, SLOT))
    assert store.kept == SEGMENTS[2:]


async def test_a_block_that_the_source_still_has_is_read_once_to_know_it() -> None:
    store = ListStore(SEGMENTS)
    await pack_all(store)
    packer = small_packer(store)
    floors = {PARTITIONS[0]: Floor(SourceOffset(15), TargetOffset(10**6))}

    assert await packer.prune(floors) == 1
    store.read.clear()
    assert await packer.prune(floors) == 0

    assert store.read == [len(store.log) - 1]  # its own tombstone
    later = {PARTITIONS[0]: Floor(SourceOffset(35), TargetOffset(10**6))}
    assert await packer.prune(later) == 1


class ForgetfulStore(ListStore):
    """Acknowledges a block and does not keep it."""

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        await super().write(slot, entries[1:])


async def test_what_is_not_read_back_is_not_freed() -> None:
    store = ForgetfulStore(SEGMENTS)
    with pytest.raises(CorruptBatchError, match="1 of 3 blocks were not read back"):
        await Packer(store, SLOT).pack()
    assert store.kept == SEGMENTS


async def test_blocks_below_both_logs_are_removed_and_no_others() -> None:
    store = ListStore(SEGMENTS)
    await pack_all(store)
    one, other = PARTITIONS[0], PARTITIONS[1]
    # blocks of the first: target [0, 11), [12, 23), [24, 35), ...; source up to 15, 35, 55, ...
    floors = {
        one: Floor(SourceOffset(35), TargetOffset(30)),
        other: Floor(SourceOffset(0), TargetOffset(99)),
    }
    before = await live_blocks(store, SLOT)

    assert await Packer(store, SLOT).prune(floors) == 2

    gone = sorted(set(before) - set(await live_blocks(store, SLOT)))
    assert [(key.identity, key.first, key.end) for key in gone] == [(one, 0, 11), (one, 12, 23)]
    assert await Packer(store, SLOT).prune(floors) == 0


@pytest.mark.parametrize("target", [30, 10**6])
async def test_what_was_pruned_before_its_segments_were_freed_is_packed_once_more(
    target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packer that dies before it frees, and another one that prunes: segments must not stay."""
    store = ListStore(SEGMENTS)
    with monkeypatch.context() as life:
        life.setattr(store, "free", _died)
        with pytest.raises(DiedError):
            await small_packer(store).pack()
    floors = {at: Floor(SourceOffset(10**6), TargetOffset(target)) for at in PARTITIONS}
    packer = small_packer(store)
    pruned = await packer.prune(floors)

    await packer.pack()

    assert pruned > 0
    assert store.kept == SEGMENTS[-1:]
    assert await packer.prune(floors) == pruned


async def _died(*_: object) -> None:
    raise DiedError


async def test_where_a_copy_stands_is_known_also_when_retention_emptied_both_logs() -> None:
    store = ListStore(SEGMENTS)
    await pack_all(store)
    before = await live_blocks(store, SLOT)
    empty = {at: Floor(SourceOffset(10**6), TargetOffset(10**6)) for at in PARTITIONS}

    await Packer(store, SLOT).prune(empty)

    left = await live_blocks(store, SLOT)
    assert {key.identity for key in left} == {key.identity for key in before}
    for key in left:
        assert key.end == max(each.end for each in before if each.identity == key.identity)


async def test_of_what_is_over_no_block_is_left_once_neither_log_has_a_record_of_it() -> None:
    store = ListStore(SEGMENTS)
    await pack_all(store)
    one, other = PARTITIONS[0], PARTITIONS[1]
    floors = {
        one: Floor(SourceOffset(GONE), TargetOffset(10**6)),
        other: Floor(SourceOffset(GONE), TargetOffset(40)),
    }
    before = await live_blocks(store, SLOT)
    packer = small_packer(store)

    await packer.prune(floors)

    left = set(await live_blocks(store, SLOT))
    assert {key for key in before if key.identity not in floors} < left
    assert [key for key in left if key.identity == one] == []
    assert {key for key in before if key.identity == other and key.end > 40} == {
        key for key in left if key.identity == other
    }
    known = packer._places.keys()
    assert one not in known
    store.append(segment(9))
    await packer.pack()
    assert one in {key.identity for key in await live_blocks(store, SLOT)}


BUSY = [
    Segment(SLOT, n, tuple((one, (run_of(10 * n, 10 * n + 5, 6 * n),)) for one in PARTITIONS))
    for n in range(30)
]
"""Each has a run of each of four partitions, that weighs 2: 9 in all with its own."""


async def test_a_pass_ends_at_its_weight_of_runs_and_the_next_one_goes_on_behind_it() -> None:
    store, whole = ListStore(BUSY), ListStore(BUSY)
    packer, passes = Packer(store, SLOT), list[Packed]()
    while not passes or passes[-1].left >= 5:
        passes.append(await packer.pack(at_least=5, most_weight=90))

    # behind ten segments, and before the marker of the last one
    told = [(each.segments, each.left) for each in passes]
    assert told == [(10, 41), (10, 23), (10, 5), (3, 0)]
    assert store.kept == BUSY[-1:]
    await Packer(whole, SLOT).pack()
    assert await live_blocks(store, SLOT) == await live_blocks(whole, SLOT)


async def test_a_segment_that_is_more_than_a_pass_may_have_is_packed_alone() -> None:
    store = ListStore(BUSY)

    assert (await Packer(store, SLOT).pack(most_weight=1)).segments == 1
    assert store.kept == BUSY[1:]


async def test_others_have_a_turn_after_each_block_that_is_planned_or_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, encoded, decoded = 0, list[int](), list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def encode(block: Block) -> tuple[bytes, bytes]:
        encoded.append(turns)
        return archive.encode(block)

    def decode(key: bytes | None, value: bytes | None) -> Block | BlockKey:
        decoded.append(turns)
        return archive.decode(key, value)

    monkeypatch.setattr(packing, "encode", encode)
    monkeypatch.setattr(planning, "decode", decode)
    store = ListStore(BUSY[:15])
    packer = Packer(store, SLOT, full=Full(10, 1_000))
    task = asyncio.create_task(others())
    await packer.pack()
    appended(store, *BUSY[15:])
    await packer.pack()
    task.cancel()

    assert (len(encoded), len(decoded)) == (16, 4)
    assert len(set(encoded)) == 16
    assert len(set(decoded)) == 4
