"""From segments to archive blocks: what to write and what it makes superfluous.

    blocks stored   [first ... end)[first . end)          the last one may have room
    segments                       run run run ...         some of them packed by a run that died
    blocks written                 [first ......... end)   the last one, longer, under a new key

Packing the same segments again gives the same blocks under the same keys, so it may be killed
anywhere and run again. Two packers at once leave blocks that overlap; nothing is lost by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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
"""The archive of one slot: values by key."""


@dataclass(frozen=True, slots=True)
class Packing:
    """`write` first; when that is read back, `remove` says nothing new."""

    write: tuple[Block, ...]
    remove: tuple[BlockKey, ...]


class Floor(NamedTuple):
    """Where both logs of a partition begin now."""

    source: SourceOffset
    target: TargetOffset


def run_weight(run: Run) -> int:
    """What a run adds to a block: about four bytes each."""
    return 1 + len(run.payloads) + len(run.holes)


def plan_packing(stored: Stored, segments: Iterable[Segment], *, full: Full = FULL) -> Packing:
    """How to get every run of `segments` into the archive.

    Raises: CorruptBatchError when segments and archive disagree, UnknownVersionError.
    """
    by_identity: dict[PartitionIdentity, dict[TargetOffset, Run]] = {}
    for segment in segments:
        for identity, runs in segment.runs:
            known = by_identity.setdefault(identity, {})
            known.update((run.target_start, run) for run in runs if run.records)
    keys = _by_identity(stored)
    write: list[Block] = []
    for identity in sorted(by_identity):
        ordered = [run for _, run in sorted(by_identity[identity].items())]
        write += _blocks(stored, keys.get(identity, []), identity, ordered, full)
    return Packing(tuple(write), covered([*stored, *(block.key for block in write)]))


def covered(keys: Iterable[BlockKey]) -> tuple[BlockKey, ...]:
    """The keys whose runs another one has, too."""
    found: list[BlockKey] = []
    ordered = sorted(set(keys), key=lambda key: (key.identity, key.first, -key.end))
    for _, same in groupby(ordered, key=lambda key: key.identity):
        widest: BlockKey | None = None
        for key in same:
            if widest is not None and widest.covers(key):
                found.append(key)
            elif widest is None or key.end > widest.end:
                widest = key
    return tuple(found)


def obsolete(stored: Stored, floors: Mapping[PartitionIdentity, Floor]) -> tuple[BlockKey, ...]:
    """The blocks below both logs' begins: nobody can read what they are about on either side.

    But the last one of a partition: it says where the copy stands, also when both logs are empty.
    Raises: CorruptBatchError, UnknownVersionError.
    """
    last = {
        identity: max(key.end for key in keys) for identity, keys in _by_identity(stored).items()
    }
    return tuple(
        key
        for key in sorted(stored)
        if key.identity in floors
        and key.end < last[key.identity]
        and key.end <= floors[key.identity].target
        and _runs_of(stored, key)[-1].source_end <= floors[key.identity].source
    )


def _by_identity(stored: Stored) -> dict[PartitionIdentity, list[BlockKey]]:
    found: dict[PartitionIdentity, list[BlockKey]] = {}
    for key in stored:
        found.setdefault(key.identity, []).append(key)
    return found


def _blocks(
    stored: Stored,
    keys: list[BlockKey],
    identity: PartitionIdentity,
    runs: list[Run],
    full: Full,
) -> list[Block]:
    newest = max(keys, key=lambda key: (key.end, -key.first), default=None)
    end = newest.end if newest is not None else TargetOffset(0)
    _check_packed(stored, keys, [run for run in runs if run.target_start < end])
    fresh = [run for run in runs if run.target_start >= end]
    if not fresh:
        return []
    base = _runs_of(stored, newest) if newest is not None else ()
    rows = (*(() if full.reached(base) else base), *fresh)
    return [Block(identity, part) for part in _cut(rows, full)]


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


def _check_packed(stored: Stored, keys: list[BlockKey], runs: list[Run]) -> None:
    """That runs which an archive block covers are in it: only then may their segments go."""
    known: dict[BlockKey, frozenset[Run]] = {}
    for run in runs:
        for key in keys:
            if key.first <= run.target_start and run.target_end <= key.end:
                if key not in known:
                    known[key] = frozenset(_runs_of(stored, key))
                if run in known[key]:
                    break
        else:
            raise CorruptBatchError(f"archive: no block has {run}, which is in its range")


def _runs_of(stored: Stored, key: BlockKey) -> tuple[Run, ...]:
    block = decode(encode_key(key), stored[key])
    return block.runs if isinstance(block, Block) else ()
