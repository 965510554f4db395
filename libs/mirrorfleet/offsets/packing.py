"""From segments to archive blocks: what to write and what it makes superfluous.

    blocks stored   [first ... end)[first . end)          the last one may have room
    segments                       run run run ...         some of them packed by a run that died
    blocks written                 [first ......... end)   the last one, longer, under a new key

Packing the same segments again gives the same blocks under the same keys, so it may be killed
anywhere and run again. Two packers at once leave blocks that overlap; nothing is lost by that.

A packer knows the keys of all blocks, and reads only those that it needs. Another one may have
removed what a key stands for, so nothing is freed or removed for a block that was not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.records.archive import Block, BlockKey, decode, encode_key
from mirrorfleet.records.segments import Run, Segment


class Full(NamedTuple):
    """When a block has no more room. `weight` is the sum of `run_weight`."""

    runs: int
    weight: int

    def reached(self, runs: Sequence[Run]) -> bool:
        """Whether a block of these runs is left as it is."""
        return len(runs) >= self.runs or sum(map(run_weight, runs)) >= self.weight


FULL: Final = Full(runs=4_096, weight=1_000_000)
"""Usually some 30 kB, so that making the last block longer stays cheap; never much more than 4 MB,
however many payloads the runs have: the archive topic takes records of 8 MB."""

Stored = Mapping[BlockKey, bytes]
"""Blocks that were read, by key."""

Keys = Mapping[PartitionIdentity, Collection[BlockKey]]
"""The keys of all blocks of one slot."""

Fresh = dict[PartitionIdentity, dict[TargetOffset, Run]]
"""The runs of some segments, by where they begin in the target; empty runs are left out."""


@dataclass(frozen=True, slots=True)
class Packing:
    """`write` first; when that is read back, `remove` says nothing new."""

    write: tuple[Block, ...]
    remove: tuple[BlockKey, ...]


GONE: Final = 2**63 - 1
"""Above every offset: where the log of a topic begins that is gone for ever."""


class Floor(NamedTuple):
    """Where both logs of a partition begin now."""

    source: SourceOffset
    target: TargetOffset

    @property
    def is_final(self) -> bool:
        """Whether nothing is ever copied under the identity again, for want of a topic."""
        return GONE in self


def run_weight(run: Run) -> int:
    """What a run adds to a block: about four bytes each."""
    return 1 + len(run.payloads) + len(run.holes)


def segment_weight(segment: Segment) -> int:
    """What its runs weigh, and 1."""
    return 1 + sum(run_weight(run) for _, runs in segment.runs for run in runs)


def add_to(fresh: Fresh, segment: Segment) -> None:
    """Take up the runs of one more segment."""
    for identity, runs in segment.runs:
        known = fresh.setdefault(identity, {})
        known.update((run.target_start, run) for run in runs if run.records)


def needed(keys: Keys, fresh: Fresh) -> set[BlockKey]:
    """The blocks that must be read to plan the packing of `fresh`.

    The newest of each partition, which may have room, and those with runs that are packed already.
    """
    found: set[BlockKey] = set()
    for identity, runs in fresh.items():
        newest = _newest(keys.get(identity, ()))
        if newest is not None:
            found.add(newest)
            low = min(runs, default=newest.end)
            if low < newest.end:
                found.update(key for key in keys[identity] if key.end > low)
    return found


def plan_packing(
    stored: Stored, segments: Iterable[Segment], *, keys: Keys | None = None, full: Full = FULL
) -> Packing:
    """How to get every run of `segments` into the archive.

    `stored` has what is `needed` of `keys`; without `keys` it is the whole archive.
    Raises: CorruptBatchError when segments and archive disagree, UnknownVersionError.
    """
    fresh: Fresh = {}
    for segment in segments:
        add_to(fresh, segment)
    parts = list(plan_each(stored, fresh, keys=keys, full=full))
    return Packing(
        tuple(block for part in parts for block in part.write),
        tuple(key for part in parts for key in part.remove),
    )


def plan_each(
    stored: Stored, fresh: Fresh, *, keys: Keys | None = None, full: Full = FULL
) -> Iterator[Packing]:
    """As `plan_packing`, in parts of one block at most, each planned when it is asked for.

    The newest block of each partition is decoded and written anew, often more runs than are fresh.
    So who has many partitions gives others a turn in between, and need not hold all blocks.
    Raises: as `plan_packing`.
    """
    read = by_identity(stored)
    known = read if keys is None else keys
    for identity in sorted(fresh.keys() | read.keys()):
        ordered = [run for _, run in sorted(fresh.get(identity, {}).items())]
        mine = known.get(identity, ())
        by = list(read.get(identity, ()))
        for block in _blocks(stored, mine, identity, ordered, full):
            by.append(block.key)
            yield Packing((block,), ())
        yield Packing((), tuple(covered((*mine, *by), by=by)))


def covered(keys: Iterable[BlockKey], *, by: Collection[BlockKey]) -> list[BlockKey]:
    """The keys whose runs one of `by` has, too."""
    return sorted({key for key in keys if any(one.covers(key) for one in by)})


def beneath(
    keys: Keys, floors: Mapping[PartitionIdentity, Floor]
) -> dict[PartitionIdentity, list[BlockKey]]:
    """The blocks that end below the target log's begin, the oldest first.

    But the last one of a partition that may go on: it says where the copy stands, also when both
    logs are empty.
    """
    found: dict[PartitionIdentity, list[BlockKey]] = {}
    for identity, mine in keys.items():
        floor = floors.get(identity)
        if floor is not None:
            last = GONE if floor.is_final else max((key.end for key in mine), default=0)
            low = [key for key in mine if key.end < last and key.end <= floor.target]
            found[identity] = sorted(low, key=lambda key: (key.end, key.first))
    return found


def undecided(
    low: Iterable[BlockKey], ends: Mapping[BlockKey, SourceOffset], floor: Floor, most: int
) -> list[BlockKey]:
    """Of blocks `beneath`, the oldest whose source end must be known next.

    None behind one that the source still has records of: source ends rise with target ends.
    """
    found: list[BlockKey] = []
    for key in low:
        end = ends.get(key)
        if len(found) == most or (end is not None and end > floor.source):
            break
        if end is None:
            found.append(key)
    return found


def source_end(stored: Stored, key: BlockKey) -> SourceOffset:
    """Behind the last source offset of a block. Raises: CorruptBatchError, UnknownVersionError."""
    return _runs_of(stored, key)[-1].source_end


def by_identity(keys: Iterable[BlockKey]) -> dict[PartitionIdentity, list[BlockKey]]:
    """Keys of each partition."""
    found: dict[PartitionIdentity, list[BlockKey]] = {}
    for key in keys:
        found.setdefault(key.identity, []).append(key)
    return found


def _newest(keys: Iterable[BlockKey]) -> BlockKey | None:
    return max(keys, key=lambda key: (key.end, -key.first), default=None)


def _blocks(
    stored: Stored,
    keys: Collection[BlockKey],
    identity: PartitionIdentity,
    runs: list[Run],
    full: Full,
) -> Iterator[Block]:
    newest = _newest(keys)
    end = newest.end if newest is not None else TargetOffset(0)
    begin = min((key.first for key in keys), default=TargetOffset(0))
    read = [key for key in keys if key in stored]  # by `needed` all that may have one of them
    packed = [run for run in runs if run.target_start < end and run.target_end > begin]
    decoded = _check_packed(stored, read, packed)
    # who packed them was killed before it freed, and then they were pruned: that is done once more
    for part in _cut((run for run in runs if run.target_end <= begin), full):
        yield Block(identity, part)
    fresh = [run for run in runs if run.target_start >= end]
    if not fresh:
        return
    base = () if newest is None else decoded.get(newest) or _runs_of(stored, newest)
    rows = (*(() if full.reached(base) else base), *fresh)
    for part in _cut(rows, full):
        yield Block(identity, part)


def _cut(runs: Iterable[Run], full: Full) -> Iterator[tuple[Run, ...]]:
    kept: list[Run] = []
    weight = 0
    for run in runs:
        kept.append(run)
        weight += run_weight(run)
        if len(kept) >= full.runs or weight >= full.weight:
            yield tuple(kept)
            kept, weight = [], 0
    if kept:
        yield tuple(kept)


def _check_packed(
    stored: Stored, keys: Collection[BlockKey], runs: list[Run]
) -> dict[BlockKey, tuple[Run, ...]]:
    """That runs which an archive block covers are in it: only then may their segments go.

    Gives the blocks that it decoded, which takes a while.
    """
    decoded: dict[BlockKey, tuple[Run, ...]] = {}
    known: dict[BlockKey, frozenset[Run]] = {}
    for run in runs:
        for key in keys:
            if key.first <= run.target_start and run.target_end <= key.end:
                if key not in known:
                    decoded[key] = _runs_of(stored, key)
                    known[key] = frozenset(decoded[key])
                if run in known[key]:
                    break
        else:
            raise CorruptBatchError(f"archive: no block has {run}, which is in its range")
    return decoded


def _runs_of(stored: Stored, key: BlockKey) -> tuple[Run, ...]:
    block = decode(encode_key(key), stored[key])
    return block.runs if isinstance(block, Block) else ()
