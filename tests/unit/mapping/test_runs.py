"""What is read of the stored map for one loss: what is asked for, and with pauses."""

from __future__ import annotations

import asyncio

import pytest

from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, TargetOffset
from mirrorfleet.mapping import blocks, runs
from mirrorfleet.mapping.packing import Packer
from mirrorfleet.mapping.runs import read_maps, read_runs
from mirrorfleet.offsets.packing import Full
from mirrorfleet.records.archive import Block, BlockKey, decode
from mirrorfleet.records.segments import Segment
from tests.unit.mapping.lists import ListStore
from tests.unit.offsets.making import PARTITIONS, run_of

SLOT = SlotNumber(3)
ONE, OTHER = PARTITIONS[:2]
RUNS = [run_of(10 * n, 10 * n + 5, 6 * n) for n in range(12)]


async def half_packed() -> ListStore:
    """Two partitions: blocks of two runs each for the first ten, then segments of two."""
    store = ListStore([Segment(SLOT, 1, ((ONE, (run,)), (OTHER, (run,)))) for run in RUNS])
    await Packer(store, SLOT, full=Full(2, 100)).pack(most_offsets=20)
    return store


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[BlockKey]:
    """The blocks that are decoded."""
    seen: list[BlockKey] = []

    def noted(key: bytes | None, value: bytes | None) -> Block | BlockKey:
        found = decode(key, value)
        assert isinstance(found, Block)
        seen.append(found.key)
        return found

    monkeypatch.setattr(blocks, "decode", noted)
    return seen


async def test_blocks_of_partitions_that_nobody_asked_for_are_not_decoded(
    read: list[BlockKey],
) -> None:
    found = await read_maps(await half_packed(), SLOT, {ONE})
    known = found.of(ONE)
    assert known is not None
    assert (known.first, known.last, len(known)) == ((0, 0), (114, 70), 12)
    assert {key.identity for key in read} == {ONE}
    assert found.of(OTHER) is None


async def test_others_have_a_turn_after_each_block(read: list[BlockKey]) -> None:
    store, most, before = await half_packed(), 0, 0

    async def neighbour() -> None:
        nonlocal most, before
        while True:
            most, before = max(most, len(read) - before), len(read)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        other = group.create_task(neighbour())
        await read_maps(store, SLOT, {ONE, OTHER})
        other.cancel()
    assert (len(read), most) == (10, 1)


async def test_runs_behind_an_offset_are_read_without_what_is_below(read: list[BlockKey]) -> None:
    found = await read_runs(await half_packed(), SLOT, ONE, TargetOffset(50))
    assert found == RUNS[8:]
    assert [(key.first, key.end) for key in read] == [(48, 59)]


async def test_a_run_that_is_packed_and_not_freed_yet_comes_once() -> None:
    store = await half_packed()
    store.start = 0
    assert await read_runs(store, SLOT, ONE, TargetOffset(0)) == RUNS


@pytest.mark.parametrize("identity", PARTITIONS[2:])
async def test_a_partition_without_a_map_has_nothing(identity: PartitionIdentity) -> None:
    store = await half_packed()
    assert (await read_maps(store, SLOT, {identity})).of(identity) is None
    assert await read_runs(store, SLOT, identity, TargetOffset(0)) == []


async def test_no_more_segments_are_held_than_may_be_and_all_are_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "_MOST_WEIGHT", 10)  # two segments of two runs
    store = await half_packed()
    store.calls.clear()

    found = await read_runs(store, SLOT, ONE, TargetOffset(0))
    assert found == RUNS
    assert store.calls.count("segments") == 2  # the marker of the last one is asked for alone

    for run in RUNS:
        store.append(Segment(SLOT, 1, ((ONE, (run,)),)))
    store.calls.clear()
    assert await read_runs(store, SLOT, ONE, TargetOffset(0)) == RUNS
    assert store.calls.count("segments") > 2
