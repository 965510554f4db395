"""The packer: segments of one slot into archive blocks, then gone.

    read segments, read on in the archive -> read the blocks that they touch
    -> write blocks -> read them back -> remove covered blocks -> free

Freed is only what was read back, and never the newest segment: by it a new owner of the slot sees
whether its positions are in step, and need not read the archive (`runs.read_ahead`). Killed
between any two steps and run again it gives the same archive (`offsets.packing` says why). Between
its passes a packer keeps keys only (`BlockPlaces`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset
from mirrorfleet.mapping.blocks import BlockPlaces
from mirrorfleet.mapping.store import MapStore, StoredSegment
from mirrorfleet.offsets.packing import (
    FULL,
    Floor,
    Fresh,
    Full,
    add_to,
    beneath,
    needed,
    plan_each,
    source_end,
    undecided,
)
from mirrorfleet.records.archive import BlockKey, encode, encode_key
from mirrorfleet.records.topics import ControlKind

MOST_OFFSETS: Final = 20_000
"""Offsets of the segments topic in one pass."""

MOST_WEIGHT: Final = 800_000
"""Of the runs in one pass (`run_weight`): 400,000 runs of one batch each, which take 200 MB. A
segment has a run of each busy partition: of 600 of them, 20,000 offsets would be 3 GB.

Not less: whatever it packs, a pass writes the newest block of each of its partitions anew.
"""

_A_STEP: Final = 1_000
"""Segments' partitions that are looked at without a pause."""

_LOOKED_AT: Final = 8
"""Blocks of a partition that are read at once to find those that may go."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a pass did. `left`: offsets of segments that are not packed."""

    segments: int = 0
    blocks: int = 0
    removed: int = 0
    left: int = 0


class Packer:
    """Packs and prunes one slot, as long as one process does so.

    Its methods raise CorruptBatchError when a block was not read back as written, is not where it
    was seen (then all is read anew the next time), or segments and archive disagree;
    UnknownVersionError; errors of the store. Nothing was freed then.
    """

    def __init__(self, store: MapStore, slot: SlotNumber, *, full: Full = FULL) -> None:
        self._store, self._slot, self._full = store, slot, full
        self._places = BlockPlaces(store, slot)
        self._source_ends: dict[BlockKey, SourceOffset] = {}

    async def pack(
        self, *, at_least: int = 1, most_offsets: int = MOST_OFFSETS, most_weight: int = MOST_WEIGHT
    ) -> Packed:
        """One pass over the oldest segments; does nothing for fewer than `at_least` offsets.

        Who packs loses its place while the loop stands still (`standby.leading`): others have a
        turn after each block.
        """
        store, slot = self._store, self._slot
        waiting = await store.bounds(ControlKind.SEGMENTS, slot)
        if waiting.end - waiting.start < max(at_least, 1):
            return Packed(left=waiting.end - waiting.start)
        end = min(waiting.end, waiting.start + most_offsets)
        segments, until = await store.segments(slot, waiting.start, end, most=most_weight)
        fresh = await _fresh(segments)
        await self._places.refresh()
        keys = self._places.keys()
        stored = await self._read(needed(keys, fresh))
        written: dict[BlockKey, tuple[bytes, bytes]] = {}
        remove: list[BlockKey] = []
        for part in plan_each(stored, fresh, keys=keys, full=self._full):
            written |= {block.key: encode(block) for block in part.write}
            remove += part.remove
            await asyncio.sleep(0)
        await self._write(written)
        await self._remove(remove)
        newest = next((one.offset for one in reversed(segments) if one.segment.runs), until)
        is_alone = newest <= waiting.start and until < waiting.end  # others come behind it
        await store.free(slot, until if is_alone else newest)
        return Packed(len(segments), len(written), len(remove), waiting.end - until)

    async def prune(self, floors: Mapping[PartitionIdentity, Floor]) -> int:
        """Remove the blocks below both logs' begins: nobody can read what they are about on either
        side; how many. Floors of other slots do not matter.
        """
        await self._places.refresh()
        low = beneath(self._places.keys(), floors)
        lowest = {key for keys in low.values() for key in keys}
        ends = {key: end for key, end in self._source_ends.items() if key in lowest}
        while unknown := [
            key
            for identity, keys in low.items()
            for key in undecided(keys, ends, floors[identity], _LOOKED_AT)
        ]:
            ends |= await self._source_ends_of(unknown)
        kept = {key: end for key, end in ends.items() if end > floors[key.identity].source}
        gone = [key for key in ends if key not in kept]
        await self._remove(gone)
        self._source_ends = kept
        return len(gone)

    async def _read(self, keys: Collection[BlockKey]) -> dict[BlockKey, bytes]:
        """The bytes of all these blocks."""
        async with aclosing(self._places.read(keys)) as blocks:
            found = {key: value async for key, value in blocks}
        self._check(found, keys)
        return found

    async def _source_ends_of(self, keys: Collection[BlockKey]) -> dict[BlockKey, SourceOffset]:
        """One block after the other: there may be many of them."""
        found: dict[BlockKey, SourceOffset] = {}
        async with aclosing(self._places.read(keys)) as blocks:
            async for key, value in blocks:
                found[key] = source_end({key: value}, key)
                await asyncio.sleep(0)
        self._check(found, keys)
        return found

    def _check(self, found: Collection[BlockKey], wanted: Collection[BlockKey]) -> None:
        if len(found) < len(wanted):
            self._places.forget()
            self._source_ends.clear()
            raise CorruptBatchError(
                f"archive of slot {self._slot}: {len(wanted) - len(found)} of {len(wanted)} blocks"
                " are not where they were seen; all is read anew with the next pass"
            )

    async def _write(self, written: Mapping[BlockKey, tuple[bytes, bytes]]) -> None:
        """Write the blocks and read them back."""
        if not written:
            return
        await self._store.write(self._slot, list(written.values()))
        await self._places.refresh()
        async with aclosing(self._places.read(written)) as blocks:
            there = {key: value async for key, value in blocks}
        lost = [key for key, (_, value) in written.items() if there.get(key) != value]
        if lost:
            raise CorruptBatchError(
                f"archive of slot {self._slot}: {len(lost)} of {len(written)} blocks were not read"
                " back as written; their segments are kept"
            )

    async def _remove(self, keys: Collection[BlockKey]) -> None:
        if keys:
            await self._store.write(self._slot, [(encode_key(key), None) for key in keys])
            self._places.remove(keys)


async def _fresh(segments: Iterable[StoredSegment]) -> Fresh:
    fresh: Fresh = {}
    taken = 0
    for _, segment in segments:
        add_to(fresh, segment)
        taken += 1 + len(segment.runs)
        if taken >= _A_STEP:
            taken = 0
            await asyncio.sleep(0)
    return fresh
