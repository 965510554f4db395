"""What a mirror would have copied, known record by record: a million translations are compared."""

from __future__ import annotations

import random
from bisect import bisect_left

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.segments import Run, Segment
from tests.integration.checkpoint.stored_map import SLOT
from tests.unit.offsets.making import PARTITIONS, run_of


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
