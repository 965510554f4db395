"""Which positions are older than the last segments of their slot, and which are newer."""

from __future__ import annotations

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, TargetOffset
from mirrorfleet.mapping import runs
from mirrorfleet.mapping.packing import Packer
from mirrorfleet.mapping.runs import read_compared
from mirrorfleet.mapping.store import StoredSegments
from mirrorfleet.records.segments import Segment
from tests.unit.mapping.lists import ListStore
from tests.unit.offsets.making import PARTITIONS, run_of

SLOT = SlotNumber(3)
ONE, OTHER, IDLE, GONE = PARTITIONS


def store_of(*transactions: tuple[PartitionIdentity, ...]) -> ListStore:
    """Each copies ten records of these partitions; a copy's own end is ten times its number."""
    ends = dict.fromkeys(PARTITIONS, 0)
    segments = []
    for written in transactions:
        made = []
        for each in written:
            at = ends[each]
            made.append((each, (run_of(at, at + 10, at),)))
            ends[each] = at + 10
        segments.append(Segment(SLOT, 1, tuple(made)))
    return ListStore(segments)


async def read_ahead(
    store: ListStore, slot: SlotNumber, copied: dict[PartitionIdentity, TargetOffset]
) -> set[PartitionIdentity]:
    return (await read_compared(store, slot, copied)).ahead


def copied(one: int, other: int) -> dict[PartitionIdentity, TargetOffset]:
    return {ONE: TargetOffset(one), OTHER: TargetOffset(other), IDLE: TargetOffset(0)}


async def test_what_is_in_step_is_known_by_the_last_few_segments() -> None:
    store = store_of(*[(ONE, OTHER)] * 100)
    assert await read_ahead(store, SLOT, copied(1000, 1000)) == set()
    assert store.calls == ["bounds segments", "segments"]


@pytest.mark.parametrize("lost", [1, 3, 5, 40, 99, 100])
async def test_all_that_lost_their_last_positions_are_found_however_many_those_are(
    lost: int,
) -> None:
    store = store_of(*[(OTHER,)] * 3, (ONE,), (OTHER,), *[(ONE, OTHER)] * 95)
    behind = copied(max(0, 10 * (96 - lost)), max(0, 10 * (99 - lost)))
    assert await read_ahead(store, SLOT, behind) == {ONE, OTHER}
    assert await read_ahead(store, SLOT, {**behind, ONE: TargetOffset(960)}) == {OTHER}


async def test_one_that_stood_still_since_is_found_as_well() -> None:
    store = store_of(*[(OTHER,)] * 50, (ONE,), *[(OTHER,)] * 3)
    assert await read_ahead(store, SLOT, copied(0, 530)) == {ONE}


async def test_segments_of_what_is_not_copied_any_more_say_nothing() -> None:
    store = store_of((ONE,), (ONE,), *[(GONE,)] * 30)
    assert await read_ahead(store, SLOT, copied(10, 0)) == {ONE}
    assert await read_ahead(store, SLOT, copied(20, 0)) == set()


async def test_it_does_not_read_all_segments_of_what_is_not_copied_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "_FARTHEST", 64)
    store = store_of(*[(ONE,)] * 2, *[(GONE,)] * 500)
    assert await read_ahead(store, SLOT, copied(0, 0)) == set()
    assert store.calls.count("segments") == 2


async def test_the_archive_is_not_read_while_the_newest_segment_is_in_step() -> None:
    store = store_of(*[(ONE, OTHER)] * 20)
    await Packer(store, SLOT).pack()
    store.calls.clear()
    assert await read_ahead(store, SLOT, copied(200, 200)) == set()
    assert store.calls == ["bounds segments", "segments"]


@pytest.mark.parametrize("freed", [0, 1], ids=["the newest segment is there", "all are freed"])
async def test_what_was_packed_before_its_positions_were_lost_is_found_as_well(freed: int) -> None:
    """Burst, pack, an unclean election of the positions: the segments are in the archive."""
    store = store_of(*[(ONE,)] * 3, *[(OTHER,)] * 3)
    await Packer(store, SLOT).pack()
    await store.free(SLOT, store.start + 2 * freed)

    assert await read_ahead(store, SLOT, copied(30, 30)) == set()
    assert await read_ahead(store, SLOT, copied(30, 20)) == {OTHER}
    assert await read_ahead(store, SLOT, copied(20, 20)) == {ONE, OTHER}


class Freeing(ListStore):
    """Its log start moves away under the first read."""

    async def segments(
        self, slot: SlotNumber, begin: int, end: int, *, most: int
    ) -> StoredSegments:
        if self.start == 0:
            self.start = 2 * 3
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "freed")
        return await super().segments(slot, begin, end, most=most)


async def test_a_read_goes_on_behind_what_is_freed_meanwhile() -> None:
    store = Freeing([each.segment for each in store_of(*[(ONE,)] * 4)._segments])
    assert await read_ahead(store, SLOT, copied(30, 0)) == {ONE}


async def test_an_offset_that_is_out_of_range_without_anything_freed_is_an_error() -> None:
    class Broken(ListStore):
        async def segments(
            self, slot: SlotNumber, begin: int, end: int, *, most: int
        ) -> StoredSegments:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "never")

    store = Broken([each.segment for each in store_of(*[(ONE,)] * 4)._segments])
    with pytest.raises(BrokerError):
        await read_ahead(store, SLOT, copied(0, 0))


@pytest.mark.parametrize("packed", [False, True], ids=["followed by others", "packed and freed"])
async def test_segments_that_lost_their_last_are_found_by_what_was_copied(*, packed: bool) -> None:
    store = store_of(*[(ONE, OTHER)] * 20, (OTHER,))
    if packed:
        await Packer(store, SLOT).pack()
        await store.free(SLOT, 2 * 21)

    found = await read_compared(store, SLOT, copied(230, 210))

    assert (found.ahead, found.short) == (set(), {ONE: 200})
    assert (await read_compared(store, SLOT, copied(190, 240))) == ({ONE}, {OTHER: 210})


async def test_an_older_segment_does_not_say_where_the_map_ends() -> None:
    store = store_of(*[(ONE,)] * 2, (ONE, OTHER))
    assert (await read_compared(store, SLOT, copied(30, 10))).short == {}
