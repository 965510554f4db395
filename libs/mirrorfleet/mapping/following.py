"""The offset map kept up with the mirror: archive first, then segments as they are committed.

    ask where segments begin -> read the archive -> follow the segments from there

In this order nothing is missed: what is freed meanwhile was in the archive before. When segments
are freed faster than they are followed, the archive is read again; until then the map is short at
its end, never holed, so each answer is right for what it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.mapping.blocks import decoded, live_blocks
from mirrorfleet.mapping.store import MapStore
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.segments import decode_segment
from mirrorfleet.records.topics import ControlKind, control_topic

_IDLE_S: Final = 0.2
_RECORDS_A_STEP: Final = 200
"""Decoded without a pause; then the loop serves others."""


class MapFollower:
    """Fills an `OffsetIndex` for the slots that it was told to want."""

    def __init__(self, cluster: Cluster, fleet: FleetName, store: MapStore) -> None:
        self.index = OffsetIndex()
        self._store = store
        self._deadline_s = cluster.settings.request_timeout_s
        self._tail = PartitionTail(cluster, control_topic(fleet, ControlKind.SEGMENTS))
        self._wanted: set[SlotNumber] = set()
        self._ends: dict[SlotNumber, int] = {}

    def want(self, slots: Iterable[SlotNumber]) -> None:
        """Follow these slots, too."""
        self._wanted.update(slots)

    @property
    def behind(self) -> frozenset[SlotNumber]:
        """Slots whose segments of the time of loading are not all applied yet."""
        at = self._tail.next_offsets
        return frozenset(
            slot
            for slot in self._wanted
            if slot not in self._ends or at.get(slot, -1) < self._ends[slot]
        )

    @property
    def slots(self) -> int:
        """How many slots are followed."""
        return len(self._ends)

    def applied(self, slot: SlotNumber) -> int:
        """Behind the last segment in the map; 0 before any."""
        return self._tail.next_offsets.get(slot, 0)

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()

    async def follow(self) -> None:
        """For ever.

        Raises: UnknownVersionError, CorruptBatchError (segments and archive disagree), BrokerError
        and DeadlineError when the target does not answer; call again to go on.
        """
        while True:
            await self.step()
            if not self._ends:
                await asyncio.sleep(_IDLE_S)

    async def catch_up(self) -> None:
        """Until everything is applied that was there at the beginning; raises as `follow`."""
        while self.behind:
            await self.step()

    async def step(self) -> None:
        """Load what is newly wanted, apply what has come; raises as `follow`."""
        for slot in sorted(self._wanted - self._ends.keys()):
            await self._load(slot)
        if not self._ends:
            return
        try:
            records = await self._tail.poll(deadline_s=self._deadline_s)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._ends.clear()  # freed under us: all of it is in the archive
            return
        for begin in range(0, len(records), _RECORDS_A_STEP):
            for record in records[begin : begin + _RECORDS_A_STEP]:
                self.index.add_segment(decode_segment(record.value or b""))
            await asyncio.sleep(0)

    async def _load(self, slot: SlotNumber) -> None:
        segments = await self._store.bounds(ControlKind.SEGMENTS, slot)
        begin = max(segments.start, self.applied(slot))
        async with aclosing(decoded(await live_blocks(self._store, slot))) as blocks:
            async for block in blocks:
                self.index.add_block(block)
        self._tail.start(slot, begin)
        self._ends[slot] = segments.end
