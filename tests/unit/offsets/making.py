"""A source log and its copy, as plain lists: what translation is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.segments import Run, Segment
from tests.unit.records.making import identity

PARTITIONS = tuple(identity(number, incarnation=age) for number in (0, 1) for age in (0, 1))
"""Two partitions, each of them made again once."""


def run_of(a: int, b: int, c: int, *holes: tuple[int, int]) -> Run:
    kept = tuple((SourceOffset(start), size) for start, size in holes)
    records = b - a - sum(size for _, size in holes)
    payloads = ((records, b * 7919 % 2**32),)
    return Run(SourceOffset(a), SourceOffset(b), TargetOffset(c), kept, payloads)


@dataclass
class History:
    """Copied records of each partition as (source, target) pairs, and the segments that say so."""

    segments: list[Segment] = field(default_factory=list)
    copied: dict[PartitionIdentity, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[PartitionIdentity, int] = field(default_factory=dict)
    """Behind the last source offset of a run."""

    def to_target(self, partition: PartitionIdentity, offset: int) -> int:
        """By looking at every record."""
        pairs = self.copied[partition]
        return min((t for s, t in pairs if s >= offset), default=pairs[-1][1] + 1)

    def to_source(self, partition: PartitionIdentity, offset: int) -> int:
        pairs = self.copied[partition]
        return min((s for s, t in pairs if t >= offset), default=self.ends[partition])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Transactions over partitions: markers, aborted ranges, removed records, tiny batches."""
    made = History()
    source = dict.fromkeys(PARTITIONS, 0)
    target = dict.fromkeys(PARTITIONS, 0)
    for number in range(draw(st.integers(1, 6))):
        runs: list[tuple[PartitionIdentity, tuple[Run, ...]]] = []
        for partition in draw(st.lists(st.sampled_from(PARTITIONS), unique=True, min_size=1)):
            mine: list[Run] = []
            for _ in range(draw(st.integers(1, 3))):
                source[partition] += draw(st.integers(0, 4))  # markers, aborted, left out
                target[partition] += draw(st.integers(0, 2))  # another writer in between
                mine.append(_run(draw, made, partition, source, target))
            target[partition] += 1  # the marker of our commit
            runs.append((partition, tuple(mine)))
        made.segments.append(Segment(SlotNumber(3), 1_000 + number, tuple(runs)))
    return made


def _run(
    draw: st.DrawFn,
    made: History,
    partition: PartitionIdentity,
    source: dict[PartitionIdentity, int],
    target: dict[PartitionIdentity, int],
) -> Run:
    """One run, where some records were removed by compaction, the first and last among them."""
    kept = draw(st.lists(st.booleans(), min_size=1, max_size=8).filter(any))
    start, first = source[partition], target[partition]
    holes: list[tuple[int, int]] = []
    for step, is_kept in enumerate(kept):
        at = start + step
        if is_kept:
            made.copied.setdefault(partition, []).append((at, target[partition]))
            target[partition] += 1
        elif holes and sum(holes[-1]) == at:
            holes[-1] = (holes[-1][0], holes[-1][1] + 1)
        else:
            holes.append((at, 1))
    source[partition] = made.ends[partition] = start + len(kept)
    return run_of(start, source[partition], first, *holes)


def check_all(index: OffsetIndex, made: History) -> None:
    """Every offset of both sides, and some beyond, against brute force."""
    for partition, pairs in made.copied.items():
        found = index.of(partition)
        assert found is not None
        for offset in range(made.ends[partition] + 3):
            forward = found.to_target(SourceOffset(offset))
            assert forward is not None
            assert forward.offset == made.to_target(partition, offset), (partition, offset)
        for offset in range(pairs[-1][1] + 4):
            back = found.to_source(TargetOffset(offset))
            assert back is not None
            assert back.offset == made.to_source(partition, offset), (partition, offset)


def gap_of(entry: CatalogPartition, first: int, end: int) -> Event:
    """An event of the ledger: [first, end) of this partition was lost."""
    return Event(
        kind=EventKind.GAP,
        time_ms=1,
        writer="w",
        link=entry.link,
        topic=entry.source_topic,
        partition=entry.identity.partition,
        first=first,
        end=end,
    )
