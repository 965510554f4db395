"""The packer, step by step: killed at each of them and run again it gives the same archive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.mapping.packing import Packed, live_blocks, pack_slot, prune_slot
from mirrorfleet.mapping.store import Entry
from mirrorfleet.offsets.packing import Floor, Full
from mirrorfleet.records.segments import Segment
from tests.unit.mapping.lists import DiedError, ListStore
from tests.unit.offsets.making import PARTITIONS, run_of

SLOT = SlotNumber(3)
SEGMENTS = [
    Segment(
        SLOT,
        1_000 + n,
        tuple((one, (run_of(10 * n, 10 * n + 5, 6 * n),)) for one in PARTITIONS[: n % 3 + 1]),
    )
    for n in range(9)
]


async def pack_all(store: ListStore) -> None:
    while (await pack_slot(store, SLOT, most_offsets=6, full=Full(2, 100))).left:
        pass


async def test_a_pass_writes_reads_back_and_frees_in_this_order() -> None:
    store = ListStore(SEGMENTS)
    done = await pack_slot(store, SLOT, most_offsets=6)
    assert done == Packed(segments=3, blocks=3, removed=0, left=12)
    assert store.calls == [
        "bounds segments",
        "segments",
        "bounds archive",
        "archive",
        "write",
        "bounds archive",
        "archive",
        "free",
    ]
    assert store.kept == SEGMENTS[3:]


async def test_few_segments_are_left_for_later() -> None:
    store = ListStore(SEGMENTS)
    assert await pack_slot(store, SLOT, at_least=19) == Packed(left=18)
    assert store.calls == ["bounds segments"]


async def test_nothing_to_pack_is_nothing_to_do() -> None:
    assert await pack_slot(ListStore([]), SLOT) == Packed()


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

    assert live_blocks(store.log) == live_blocks(whole.log)
    assert store.kept == []


class ForgetfulStore(ListStore):
    """Acknowledges a block and does not keep it."""

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        await super().write(slot, entries[1:])


async def test_what_is_not_read_back_is_not_freed() -> None:
    store = ForgetfulStore(SEGMENTS)
    with pytest.raises(CorruptBatchError, match="1 of 3 blocks were not read back"):
        await pack_slot(store, SLOT)
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
    before = live_blocks(store.log)

    assert await prune_slot(store, SLOT, floors) == 2

    gone = sorted(set(before) - set(live_blocks(store.log)))
    assert [(key.identity, key.first, key.end) for key in gone] == [(one, 0, 11), (one, 12, 23)]
    assert await prune_slot(store, SLOT, floors) == 0


async def test_where_a_copy_stands_is_known_also_when_retention_emptied_both_logs() -> None:
    store = ListStore(SEGMENTS)
    await pack_all(store)
    before = live_blocks(store.log)
    empty = {at: Floor(SourceOffset(10**6), TargetOffset(10**6)) for at in PARTITIONS}

    await prune_slot(store, SLOT, empty)

    left = live_blocks(store.log)
    assert {key.identity for key in left} == {key.identity for key in before}
    for key in left:
        assert key.end == max(each.end for each in before if each.identity == key.identity)
