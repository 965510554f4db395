"""The archive of a slot: its live blocks, all at once or only where they are.

Whoever packs for days knows keys and offsets and reads on; the bytes stay in the topic, and are
read from their offsets when they are needed. What another process did meanwhile:

    wrote, removed     read with what came since
    removed, and the tombstone is gone, too     the key is known for longer; no bytes are found
    made the topic anew, or cut it     begin and end show it, or no bytes are found

So a key alone is no proof: nothing may rest on a block whose bytes were not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import aclosing
from typing import Final

from mirrorfleet.core.ids import PartitionIdentity, SlotNumber
from mirrorfleet.mapping.store import MapStore, StoredEntry
from mirrorfleet.records.archive import Block, BlockKey, decode, decode_key, encode_key
from mirrorfleet.records.topics import ControlKind

_NEAR: Final = 100
"""Records between two that are wanted: they are read over, which costs less than a new fetch."""
_A_STEP: Final = 200
"""Keys that are decoded without a pause."""

Wanted = Callable[[BlockKey], bool]


def every(key: BlockKey) -> bool:
    """Wants any block."""
    del key
    return True


async def live_blocks(
    store: MapStore, slot: SlotNumber, wanted: Wanted = every
) -> dict[BlockKey, bytes]:
    """The last value of each key, without those that were removed.

    Read on until the end stands still: a block may be replaced by one behind the end of before and
    be cleaned away while we read. What replaces it was written before it was removed, so it is
    there by then. Raises: as `decode_key`; errors of the store.
    """
    found: dict[BlockKey, bytes] = {}
    begin, end = await store.bounds(ControlKind.ARCHIVE, slot)
    while begin < end:
        await _read_into(found, store.archive(slot, begin, end), wanted)
        begin, end = end, (await store.bounds(ControlKind.ARCHIVE, slot)).end
    return found


async def _read_into(
    found: dict[BlockKey, bytes], stored: AsyncGenerator[StoredEntry, None], wanted: Wanted
) -> None:
    async with aclosing(stored) as entries:
        seen = 0
        async for entry in entries:
            key = decode_key(entry.key)
            if entry.value is None:
                found.pop(key, None)
            elif wanted(key):
                found[key] = entry.value
            seen += 1
            if seen % _A_STEP == 0:
                await asyncio.sleep(0)


async def decoded(stored: dict[BlockKey, bytes]) -> AsyncGenerator[Block, None]:
    """Blocks by rising target offsets: then a map has no hole while they are applied.

    Decoding one takes a while, so others have a turn after each. Raises: as `decode`.
    """
    for key in sorted(stored):
        block = decode(encode_key(key), stored[key])
        if isinstance(block, Block):
            yield block
        await asyncio.sleep(0)


class BlockPlaces:
    """Which blocks a slot's archive has, and where; read on at each `refresh`."""

    def __init__(self, store: MapStore, slot: SlotNumber) -> None:
        self._store, self._slot = store, slot
        self._places: dict[PartitionIdentity, dict[BlockKey, int]] = {}
        self._end = 0

    def keys(self) -> dict[PartitionIdentity, Collection[BlockKey]]:
        """The keys of each partition."""
        return {identity: places.keys() for identity, places in self._places.items()}

    def forget(self) -> None:
        """Have the next `refresh` begin anew."""
        self._places.clear()
        self._end = 0

    def remove(self, keys: Collection[BlockKey]) -> None:
        """Tombstones of these were written; nobody waits to read them."""
        for key in keys:
            places = self._places.get(key.identity, {})
            places.pop(key, None)
            if not places:
                self._places.pop(key.identity, None)

    async def refresh(self) -> None:
        """Read on up to the archive's end now. Raises: as `live_blocks`."""
        bounds = await self._store.bounds(ControlKind.ARCHIVE, self._slot)
        if not bounds.start <= self._end <= bounds.end:
            self.forget()  # made anew or cut: what we know is of another log
        begin = max(self._end, bounds.start)
        async with aclosing(self._store.archive(self._slot, begin, bounds.end)) as entries:
            seen = 0
            async for entry in entries:
                self._take(decode_key(entry.key), entry.offset if entry.value is not None else None)
                seen += 1
                if seen % _A_STEP == 0:
                    await asyncio.sleep(0)
        self._end = bounds.end

    async def read(
        self, keys: Collection[BlockKey]
    ) -> AsyncGenerator[tuple[BlockKey, bytes], None]:
        """Those of these blocks that are where they were seen, with their bytes."""
        found = ((self._places.get(key.identity, {}).get(key), key) for key in keys)
        wanted = {offset: key for offset, key in found if offset is not None}
        for begin, end in _stretches(sorted(wanted)):
            async with aclosing(self._store.archive(self._slot, begin, end)) as entries:
                async for entry in entries:
                    key = wanted.get(entry.offset)
                    if key is None or entry.value is None:
                        continue
                    if entry.key == encode_key(key):
                        yield key, entry.value

    def _take(self, key: BlockKey, offset: int | None) -> None:
        if offset is None:
            self.remove((key,))
        else:
            self._places.setdefault(key.identity, {})[key] = offset


def _stretches(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Offsets that are near to each other, as [begin, end)."""
    begin, last = -1, -1
    for offset in offsets:
        if begin < 0:
            begin = offset
        elif offset - last > _NEAR:
            yield begin, last + 1
            begin = offset
        last = offset
    if begin >= 0:
        yield begin, last + 1
