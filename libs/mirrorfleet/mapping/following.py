"""The offset map kept up with the mirror: archive first, then segments as they are committed.

    ask where segments begin -> read the archive -> follow the segments from there

In this order nothing is missed: what is freed meanwhile was in the archive before. When segments
are freed faster than they are followed, or their log is not the one that was read, archive and
segments of that slot are read again; until then the map is short at its end, never holed, so each
answer is right for what it knows.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import FleetName, SlotNumber, TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.mapping.blocks import decoded, live_blocks
from mirrorfleet.mapping.store import MapStore
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.segments import decode_segment
from mirrorfleet.records.topics import ControlKind, control_topic

_IDLE_S: Final = 0.2
_LOOK_AGAIN_S: Final = 1.0
"""Between two looks for the leaders of slots that could not be loaded; longer where a look took
longer, so that what is followed goes on in between."""
_KINDS: Final = (ControlKind.SEGMENTS, ControlKind.ARCHIVE)
_RECORDS_A_STEP: Final = 200
"""Decoded without a pause; then the loop serves others."""


class MapFollower:
    """Fills an `OffsetIndex` for the slots that it was told to want."""

    def __init__(self, cluster: Cluster, fleet: FleetName, store: MapStore) -> None:
        self.index = OffsetIndex()
        self._cluster = cluster
        self._fleet = fleet
        self._store = store
        self._deadline_s = cluster.settings.request_timeout_s
        self._tail = PartitionTail(cluster, control_topic(fleet, ControlKind.SEGMENTS))
        self._wanted: set[SlotNumber] = set()
        self._ends: dict[SlotNumber, int] = {}
        self._read: set[SlotNumber] = set()
        self._unloaded: dict[SlotNumber, MirrorfleetError] = {}
        self._look_again_at = -math.inf
        self.complete_at: float | None = None
        """When all that was committed was in the map for the last time (monotonic seconds)."""

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
    def unread(self) -> frozenset[SlotNumber]:
        """Slots that were behind ever since they are wanted: of these the map knows too little."""
        return frozenset(self._wanted - self._read)

    @property
    def leaderless(self) -> Mapping[SlotNumber, MirrorfleetError]:
        """Slots that stand still because a partition of theirs has no leader, or one that cannot
        be reached; others go on.
        """
        tail = {SlotNumber(slot): error for slot, error in self._tail.leaderless.items()}
        return tail | self._unloaded

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
        """Until everything is applied that was there at the beginning.

        Raises: as `follow`; DeadlineError when a slot stays without a leader.
        """
        patience: Attempts | None = None
        while self.behind:
            await self.step()
            trouble = next(iter(self.leaderless.values()), None)
            if trouble is None:
                patience = None
            else:
                what = f"{self._cluster.name}: offset map"
                patience = patience or Attempts(what, self._deadline_s, self._cluster.dice)
                await patience.pause(trouble)

    async def step(self) -> None:
        """Load what is newly wanted, apply what has come; raises as `follow`."""
        await self._load_wanted()
        if not self._ends:
            return
        before = self._tail.next_offsets
        try:
            records = await self._tail.poll(deadline_s=self._deadline_s)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            for slot in map(SlotNumber, tuple(self._tail.out_of_range)):
                self._tail.stop(slot)  # freed under us, or another log: it is loaded again
                self._ends.pop(slot, None)
            return
        for begin in range(0, len(records), _RECORDS_A_STEP):
            for record in records[begin : begin + _RECORDS_A_STEP]:
                self.index.add_segment(decode_segment(record.value or b""))
            await asyncio.sleep(0)
        await self._ask_for_an_end(before)
        self._read |= self._ends.keys() - self.behind
        if not (self.behind or self.leaderless or self._tail.left):
            self.complete_at = asyncio.get_running_loop().time()

    async def _ask_for_an_end(self, before: Mapping[int, int]) -> None:
        """A log that lost its tail may not come to where it ended when it was loaded.

        Of slots that got nothing just now one is asked for: mostly there is none, and nothing lost.
        """
        now = self._tail.next_offsets
        for slot in sorted(self.behind & self._ends.keys() - self.leaderless.keys()):
            if now[slot] == before.get(slot):
                found = await self._store.bounds(ControlKind.SEGMENTS, slot)
                self._ends[slot] = min(self._ends[slot], found.end)
                return

    async def _load_wanted(self) -> None:
        """Load what has leaders that answer; for the others nobody waits.

        Raises: as `follow`; of what a retry can help only when no slot at all is followed.
        """
        wanted = self._wanted - self._ends.keys()
        clock = asyncio.get_running_loop().time
        began = clock()
        if began < self._look_again_at:
            wanted -= self._unloaded.keys()
        elif self._unloaded:
            for kind in _KINDS:
                self._cluster.forget_leaders(control_topic(self._fleet, kind))
        away: dict[int, MirrorfleetError] = {}
        for slot in sorted(wanted):
            await self._load_or_note(slot, away)
        if wanted & self._unloaded.keys():
            now = clock()
            self._look_again_at = now + max(now - began, _LOOK_AGAIN_S)
        if not self._ends:
            for error in self._unloaded.values():
                if not _is_leaderless(error):
                    raise error

    async def _load_or_note(self, slot: SlotNumber, away: dict[int, MirrorfleetError]) -> None:
        """`away`: brokers that could not be reached, which other slots do not wait for again."""
        try:
            for kind in _KINDS:
                await self._reach(TopicPartition(control_topic(self._fleet, kind), slot), away)
            await self._load(slot)
        except MirrorfleetError as error:
            if not error.retriable:
                raise
            self._unloaded[slot] = error
        else:
            self._unloaded.pop(slot, None)

    async def _reach(self, at: TopicPartition, away: dict[int, MirrorfleetError]) -> None:
        """Asking a partition that nobody leads or reaches would tell at the deadline only."""
        node = (await self._cluster.leader(at)).node_id
        if node not in away:
            try:
                await self._cluster.shared(node)
            except (ConnectionLostError, DeadlineError) as error:
                away[node] = error
        if node in away:
            raise away[node]

    async def _load(self, slot: SlotNumber) -> None:
        segments = await self._store.bounds(ControlKind.SEGMENTS, slot)
        async with aclosing(decoded(await live_blocks(self._store, slot))) as blocks:
            async for block in blocks:
                self.index.add_block(block)
        self._tail.start(slot, segments.start)
        self._ends[slot] = segments.end


def _is_leaderless(error: MirrorfleetError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.LEADER_NOT_AVAILABLE
