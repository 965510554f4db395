"""What the stored map has of some partitions, read once, as it is now.

For a slot at work: what is not asked for is not decoded, and others have a turn after each block.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, closing
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, PartitionIdentity, SlotNumber, TargetOffset
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.blocks import BlockPlaces, decoded, live_blocks
from mirrorfleet.mapping.store import KafkaMapStore, MapStore
from mirrorfleet.offsets.ahead import Compared, Ends, compared, standing
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.archive import BlockKey
from mirrorfleet.records.segments import Run, Segment
from mirrorfleet.records.topics import ControlKind

Part = tuple[PartitionIdentity, tuple[Run, ...]]

_MOST_WEIGHT: Final = 400_000
"""Of the runs that are held as segments, by `run_weight`: some 100 MB."""
_A_STEP: Final = 1_000
"""Partitions of segments that are looked at, and runs given out, without a pause."""
_LAST: Final = 8
"""Offsets of the segments that are looked at first, from the end: each has a marker behind it."""
_GROWTH: Final = 8
"""Each stretch before them is so much larger."""
_FARTHEST: Final = 4_096
"""Where none of the segments looked at is of a partition that is asked for, no more are read."""


class StoredMap:
    """The map of a fleet, on its target cluster.

    All questions raise UnknownVersionError, CorruptBatchError, DeadlineError and BrokerError
    (OFFSET_OUT_OF_RANGE when segments are freed meanwhile: try again).
    """

    def __init__(self, target: Cluster, fleet: FleetName, clock: Clock) -> None:
        self._target, self._fleet, self._clock = target, fleet, clock

    async def maps_of(self, slot: SlotNumber, wanted: Collection[PartitionIdentity]) -> OffsetIndex:
        """All that is known of some partitions of a slot, without the payloads."""
        with self._opened() as store:
            return await read_maps(store, slot, wanted)

    async def runs_behind(
        self, slot: SlotNumber, identity: PartitionIdentity, first: TargetOffset
    ) -> list[Run]:
        """The runs of a partition that end behind a target offset, by rising offsets."""
        with self._opened() as store:
            return await read_runs(store, slot, identity, first)

    async def compared_with(
        self, slot: SlotNumber, copied: Mapping[PartitionIdentity, TargetOffset]
    ) -> Compared:
        """Positions beside what was stored last. What is short is only looked for there."""
        with self._opened() as store:
            return await read_compared(store, slot, copied)

    def _opened(self) -> closing[KafkaMapStore]:
        return closing(KafkaMapStore(self._target, self._fleet, self._clock))


async def read_compared(
    store: MapStore, slot: SlotNumber, copied: Mapping[PartitionIdentity, TargetOffset]
) -> Compared:
    """See `StoredMap.compared_with`. What is lost is an end, so it reads backwards, to the first
    stretch that has a segment with which positions are in step; the archive is behind them.
    """
    begin, end = await store.bounds(ControlKind.SEGMENTS, slot)
    ends: Ends = {}
    at, size = end, _LAST
    while at > begin and (compared(ends, copied).ahead or end - at < _FARTHEST):
        first = max(begin, at - size)
        try:
            async with aclosing(_segments(store, slot, first, at)) as segments:
                seen = [standing(segment, copied) async for segment in segments]
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            begin, _ = await store.bounds(ControlKind.SEGMENTS, slot)
            if begin <= first:
                raise
            continue  # freed meanwhile
        for identity, behind in (one for each in reversed(seen) for one in each.ends.items()):
            ends.setdefault(identity, behind)  # not of an older one
        if any(each.in_step for each in seen):
            return compared(ends, copied)
        at, size = first, size * _GROWTH
    packed = {} if at > begin else await _packed_ends(store, slot)
    return compared({one: packed[one] for one in packed.keys() & copied.keys()} | ends, copied)


async def _packed_ends(store: MapStore, slot: SlotNumber) -> Ends:
    """By the keys of the blocks; none is held."""
    places = BlockPlaces(store, slot)
    await places.refresh()
    packed = places.keys().items()
    return {identity: max(key.end for key in keys) for identity, keys in packed if keys}


async def _segments(
    store: MapStore, slot: SlotNumber, at: int, end: int
) -> AsyncGenerator[Segment, None]:
    """Those at offsets [at, end), of which no more are held than may be."""
    while at < end:
        found, at = await store.segments(slot, at, end, most=_MOST_WEIGHT)
        for record in found:
            yield record.segment


async def read_maps(
    store: MapStore, slot: SlotNumber, wanted: Collection[PartitionIdentity]
) -> OffsetIndex:
    """See `StoredMap.maps_of`."""
    found = OffsetIndex()
    async with aclosing(_parts(store, slot, wanted)) as parts:
        async for identity, runs in parts:
            found.add(identity, runs)
    return found


async def read_runs(
    store: MapStore, slot: SlotNumber, identity: PartitionIdentity, first: TargetOffset
) -> list[Run]:
    """See `StoredMap.runs_behind`. A run that is packed and not freed yet comes once."""
    found: dict[TargetOffset, Run] = {}
    async with aclosing(_parts(store, slot, (identity,), first)) as parts:
        async for _, runs in parts:
            found.update((run.target_start, run) for run in runs if run.target_end > first)
    return [found[at] for at in sorted(found)]


async def _parts(
    store: MapStore,
    slot: SlotNumber,
    wanted: Collection[PartitionIdentity],
    first: int = -1,
) -> AsyncGenerator[Part, None]:
    """Archive, then segments; what was freed in between is in both."""

    def is_wanted(key: BlockKey) -> bool:
        return key.end > first and key.identity in wanted

    begin, end = await store.bounds(ControlKind.SEGMENTS, slot)
    async with aclosing(decoded(await live_blocks(store, slot, is_wanted))) as blocks:
        async for block in blocks:
            yield block.identity, block.runs
    seen = 0
    async with aclosing(_segments(store, slot, begin, end)) as segments:
        async for segment in segments:
            for identity, runs in segment.runs:
                seen += 1
                if identity in wanted:
                    yield identity, runs
                    seen += len(runs)
            if seen >= _A_STEP:
                seen = 0
                await asyncio.sleep(0)
