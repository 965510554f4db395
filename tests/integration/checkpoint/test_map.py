"""The offset map on a real broker: a million offsets, packed, and freed under a reader."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import AsyncIterator
from itertools import count
from typing import Final

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import (
    FleetName,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
    TopicPartition,
)
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.packing import pack_slot
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.segments import Run, Segment, encode_segment
from mirrorfleet.records.topics import ControlKind, control_topic, control_topics
from mirrorfleet.runtime.clock import SystemClock
from services.local.region import Region
from tests.unit.offsets.making import PARTITIONS, run_of

SLOT: Final = SlotNumber(1)
ASKED: Final = 1_000_000
NUMBERS: Final = count(1)


class Copied:
    """What a mirror would have copied, and every record of it on both sides."""

    def __init__(self) -> None:
        self._dice = random.Random(7)
        self._time_ms = 0
        self.sources: dict[PartitionIdentity, list[int]] = {one: [] for one in PARTITIONS}
        self.targets: dict[PartitionIdentity, list[int]] = {one: [] for one in PARTITIONS}
        self.ends = dict.fromkeys(PARTITIONS, 0)

    def transaction(self) -> Segment:
        """Up to three runs of each partition; markers, aborted and removed records between."""
        self._time_ms += 1
        runs = tuple((one, self._runs(one)) for one in PARTITIONS if self._dice.random() < 0.8)
        return Segment(SLOT, self._time_ms, runs)

    def _runs(self, one: PartitionIdentity) -> tuple[Run, ...]:
        found = []
        target = self.targets[one][-1] + 2 if self.targets[one] else 0  # one is our marker
        for _ in range(self._dice.randrange(1, 4)):
            start = self.ends[one] + self._dice.randrange(4)
            kept = [self._dice.random() < 0.9 for _ in range(self._dice.randrange(12))] + [True]
            holes = [(start + n, 1) for n, is_kept in enumerate(kept) if not is_kept]
            found.append(run_of(start, start + len(kept), target, *holes))
            self.sources[one] += [start + n for n, is_kept in enumerate(kept) if is_kept]
            self.targets[one] += range(target, target + sum(kept))
            self.ends[one] = start + len(kept)
            target += sum(kept)
        return tuple(found)

    def check(self, index: OffsetIndex, asked: int) -> None:
        """Random offsets of both sides, past the ends too, against the lists of records."""
        for one in PARTITIONS:
            found = index.of(one)
            assert found is not None
            sources, targets = self.sources[one], self.targets[one]
            for _ in range(asked // len(PARTITIONS)):
                offset = self._dice.randrange(self.ends[one] + 5)
                at = bisect_left(sources, offset)
                forward = found.to_target(SourceOffset(offset))
                assert forward is not None
                assert forward.offset == (targets[at] if at < len(targets) else targets[-1] + 1)
                there = self._dice.randrange(targets[-1] + 5)
                at = bisect_left(targets, there)
                back = found.to_source(TargetOffset(there))
                assert back is not None
                assert back.offset == (sources[at] if at < len(sources) else self.ends[one])


class Fleet:
    """Control topics of two slots, and somebody who writes segments into one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = FleetName(f"map{next(NUMBERS)}")
        self.store = KafkaMapStore(cluster, self.name, SystemClock())
        self._writer = ControlWriter(cluster)

    async def make(self) -> None:
        specs = control_topics(self.name, slots=2, replication_factor=1)
        topics = [
            NewTopic(name=s.name, partitions=s.partitions, replication_factor=1, configs=s.configs)
            for s in specs
        ]
        assert set((await create_topics(self.cluster, topics)).values()) == {None}

    async def write(self, copied: Copied, transactions: int) -> None:
        at = TopicPartition(control_topic(self.name, ControlKind.SEGMENTS), SLOT)
        await self.put(at, *(encode_segment(copied.transaction()) for _ in range(transactions)))

    async def put(self, at: TopicPartition, *values: bytes) -> None:
        await self._writer.write(at, [(None, value) for value in values], 1_700_000_000_000)

    async def follower(self) -> MapFollower:
        made = MapFollower(self.cluster, self.name, self.store)
        made.want([SLOT, SlotNumber(0)])
        await made.catch_up()
        return made

    async def pack(self) -> None:
        while (await pack_slot(self.store, SLOT, most_offsets=300)).left:
            pass

    def close(self) -> None:
        self.store.close()
        self._writer.close()


@pytest.fixture
async def fleet(west: Region) -> AsyncIterator[Fleet]:
    async with Cluster(west.settings()) as cluster:
        made = Fleet(cluster)
        await made.make()
        yield made
        made.close()


async def test_a_million_offsets_translate_exactly_before_and_after_packing(fleet: Fleet) -> None:
    copied = Copied()
    await fleet.write(copied, 2_000)
    before = await fleet.follower()
    copied.check(before.index, ASKED)
    before.close()

    await fleet.pack()
    bounds = await fleet.store.bounds(ControlKind.SEGMENTS, SLOT)
    assert bounds.start == bounds.end == 2_000
    after = await fleet.follower()
    copied.check(after.index, ASKED)
    after.close()


async def test_segments_freed_before_they_were_followed_are_found_in_the_archive(
    fleet: Fleet,
) -> None:
    copied = Copied()
    await fleet.write(copied, 200)
    follower = await fleet.follower()
    copied.check(follower.index, 1_000)

    await fleet.write(copied, 700)
    await fleet.pack()
    await fleet.write(copied, 30)
    while follower.applied(SLOT) < 930:
        await follower.step()
    follower.close()

    copied.check(follower.index, 10_000)


async def test_segments_of_a_newer_build_or_that_contradict_stop_the_reader(fleet: Fleet) -> None:
    at = [TopicPartition(control_topic(fleet.name, ControlKind.SEGMENTS), slot) for slot in (0, 1)]
    await fleet.put(at[0], b"\x07" + encode_segment(Copied().transaction())[1:])
    runs = ((PARTITIONS[0], (run_of(0, 5, 0),)), (PARTITIONS[0], (run_of(7, 9, 3),)))
    await fleet.put(at[1], *(encode_segment(Segment(SLOT, 1, (run,))) for run in runs))

    for slot, error, said in (
        (0, UnknownVersionError, "segment: version 7 is not known"),
        (1, CorruptBatchError, f"offset map of {PARTITIONS[0]}: .* disagree"),
    ):
        follower = MapFollower(fleet.cluster, fleet.name, fleet.store)
        follower.want([SlotNumber(slot)])
        with pytest.raises(error, match=said.replace("(", r"\(").replace(")", r"\)")):
            await follower.catch_up()
        follower.close()
