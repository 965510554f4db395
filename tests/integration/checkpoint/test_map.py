"""The offset map on a real broker: a million offsets, packed, and freed under a reader."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import AsyncIterator
from typing import Final

import pytest

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.segments import Run, Segment
from mirrorfleet.records.topics import ControlKind
from services.local.region import Region
from tests.integration.checkpoint.stored_map import SLOT, StoredMap
from tests.unit.offsets.making import PARTITIONS, run_of

ASKED: Final = 1_000_000


class Copied:
    """What a mirror would have copied, and every record of it on both sides."""

    def __init__(self) -> None:
        self._dice = random.Random(7)
        self._time_ms = 0
        self.sources: dict[PartitionIdentity, list[int]] = {one: [] for one in PARTITIONS}
        self.targets: dict[PartitionIdentity, list[int]] = {one: [] for one in PARTITIONS}
        self.ends = dict.fromkeys(PARTITIONS, 0)

    def transactions(self, count: int) -> list[Segment]:
        """The segments of so many."""
        return [self.transaction() for _ in range(count)]

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


@pytest.fixture
async def fleet(west: Region) -> AsyncIterator[StoredMap]:
    async with Cluster(west.settings()) as cluster:
        made = StoredMap(cluster)
        await made.make()
        yield made
        made.close()


async def test_a_million_offsets_translate_exactly_before_and_after_packing(
    fleet: StoredMap,
) -> None:
    copied = Copied()
    await fleet.write(copied.transactions(2_000))
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
    fleet: StoredMap,
) -> None:
    copied = Copied()
    await fleet.write(copied.transactions(200))
    follower = await fleet.follower()
    copied.check(follower.index, 1_000)

    await fleet.write(copied.transactions(700))
    await fleet.pack()
    await fleet.write(copied.transactions(30))
    while follower.applied(SLOT) < 930:
        await follower.step()
    follower.close()

    copied.check(follower.index, 10_000)
