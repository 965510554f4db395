"""The packer: segments of one slot into archive blocks, then gone.

    read segments, read archive -> write blocks -> read them back -> remove covered blocks -> free

Freed is only what was read back. Killed between any two steps and run again it gives the same
archive (`offsets.packing` says why).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import BrokerError, CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets
from mirrorfleet.mapping.store import Entry, MapStore
from mirrorfleet.offsets.copies import source_of, target_of
from mirrorfleet.offsets.packing import FULL, Floor, Full, Packing, obsolete, plan_packing
from mirrorfleet.records.archive import BlockKey, decode_key, encode, encode_key
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.topics import ControlKind

MOST_OFFSETS: Final = 20_000
"""Offsets of the segments topic in one pass: bounds the memory that a pass takes."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a pass did. `left`: offsets of segments still there."""

    segments: int = 0
    blocks: int = 0
    removed: int = 0
    left: int = 0


async def pack_slot(
    store: MapStore,
    slot: SlotNumber,
    *,
    at_least: int = 1,
    most_offsets: int = MOST_OFFSETS,
    full: Full = FULL,
) -> Packed:
    """One pass over the oldest segments of a slot; does nothing for fewer than `at_least` offsets.

    Raises: CorruptBatchError when a block was not read back as written, or segments and archive
    disagree; UnknownVersionError; errors of the store. Nothing was freed then.
    """
    waiting = await store.bounds(ControlKind.SEGMENTS, slot)
    if waiting.end - waiting.start < max(at_least, 1):
        return Packed(left=waiting.end - waiting.start)
    until = min(waiting.end, waiting.start + most_offsets)
    segments = await store.segments(slot, waiting.start, until)
    stored, end = await _read_archive(store, slot)
    packing = plan_packing(stored, (each.segment for each in segments), full=full)
    await _write(store, slot, packing, end)
    if packing.remove:
        await store.write(slot, [(encode_key(key), None) for key in packing.remove])
    await store.free(slot, until)
    return Packed(len(segments), len(packing.write), len(packing.remove), waiting.end - until)


async def prune_slot(
    store: MapStore, slot: SlotNumber, floors: Mapping[PartitionIdentity, Floor]
) -> int:
    """Remove the blocks that nobody can ask about any more; how many. Raises: as `pack_slot`."""
    stored, _ = await _read_archive(store, slot)
    keys = obsolete(stored, floors)
    if keys:
        await store.write(slot, [(encode_key(key), None) for key in keys])
    return len(keys)


async def log_floors(
    source: Cluster, target: Cluster, entries: Iterable[CatalogPartition]
) -> dict[PartitionIdentity, Floor]:
    """Where both logs of copied partitions begin; one that does not answer is left out."""
    wanted = list(entries)
    sources = await list_offsets(source, {source_of(entry): EARLIEST for entry in wanted})
    targets = await list_offsets(target, {target_of(entry): EARLIEST for entry in wanted})
    found: dict[PartitionIdentity, Floor] = {}
    for entry in wanted:
        one, other = sources[source_of(entry)], targets[target_of(entry)]
        if not isinstance(one, BrokerError) and not isinstance(other, BrokerError):
            floor = Floor(SourceOffset(one.offset), TargetOffset(other.offset))
            found[entry.identity] = floor
    return found


async def _read_archive(store: MapStore, slot: SlotNumber) -> tuple[dict[BlockKey, bytes], int]:
    bounds = await store.bounds(ControlKind.ARCHIVE, slot)
    return live_blocks(await store.archive(slot, *bounds)), bounds.end


def live_blocks(entries: list[Entry]) -> dict[BlockKey, bytes]:
    """The last value of each key, without those that were removed. Raises: as `decode_key`."""
    found: dict[BlockKey, bytes] = {}
    for raw, value in entries:
        key = decode_key(raw)
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


async def _write(store: MapStore, slot: SlotNumber, packing: Packing, end: int) -> None:
    """Write the blocks and read them back."""
    if not packing.write:
        return
    written = [encode(block) for block in packing.write]
    await store.write(slot, written)
    bounds = await store.bounds(ControlKind.ARCHIVE, slot)
    there = set(await store.archive(slot, max(end, bounds.start), bounds.end))
    lost = [key for key, value in written if (key, value) not in there]
    if lost:
        raise CorruptBatchError(
            f"archive of slot {slot}: {len(lost)} of {len(written)} blocks were not read back as"
            " written; their segments are kept"
        )
