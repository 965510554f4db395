"""The offset map in memory: which target offset holds which source offset, both ways.

A *piece* is a stretch without holes, on either side: source [s, s+n) is target [t, t+n).

    source   s0 s0+1 s0+2   .  .   s1 s1+1      '.' = marker, aborted, removed or left out
    target   t0 t0+1 t0+2   x      t1 t1+1      'x' = marker of a commit, or another writer

Pieces rise on both sides, so each side is found by bisection (`pieces`), and pieces that touch on
both sides are one. One map is one incarnation of one partition: a topic made again has another
identity, and so another map. What both logs have lost is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.packing import Floor
from mirrorfleet.offsets.pieces import CHUNK, SOURCE, TARGET, Piece, Pieces, Side
from mirrorfleet.records.archive import Block
from mirrorfleet.records.segments import Run, Segment

O = TypeVar("O", SourceOffset, TargetOffset)  # noqa: E741 - an offset of either side


class Found(StrEnum):
    """How an offset relates to what was copied."""

    EXACT = "exact"
    """The first copied record that is not below the offset asked for."""
    END = "end"
    """Nothing from there on is copied yet: the end of the copy. It moves on with the mirror."""
    BEFORE = "before-copy"
    """Below the first record that was copied: that record. What was before is not on this side."""


@dataclass(frozen=True, slots=True)
class Translated(Generic[O]):
    """An offset on the other side, as a group commits it: the next record to read."""

    offset: O
    found: Found


class PartitionMap:
    """The pieces of one partition identity. Runs may come in any order and more than once."""

    __slots__ = ("_forgotten", "_pieces", "source_end", "target_end")

    def __init__(self, chunk: int = CHUNK) -> None:
        self._pieces = Pieces(chunk)
        self._forgotten = 0
        self.source_end = SourceOffset(0)
        """Behind the last source offset that was looked at; copied records end there or before."""
        self.target_end = TargetOffset(0)
        """Behind the last copied record."""

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def nbytes(self) -> int:
        """Bytes of the pieces."""
        return self._pieces.nbytes

    @property
    def first(self) -> tuple[SourceOffset, TargetOffset] | None:
        """The first copied record on both sides."""
        if not self._pieces:
            return None
        first = self._pieces[0]
        return SourceOffset(first.source), TargetOffset(first.target)

    @property
    def last(self) -> tuple[SourceOffset, TargetOffset] | None:
        """The last copied record on both sides."""
        if not self._pieces:
            return None
        last = self._pieces[-1]
        step = last.records - 1
        return SourceOffset(last.source + step), TargetOffset(last.target + step)

    def end_below(
        self, source: SourceOffset, target: TargetOffset
    ) -> tuple[SourceOffset, TargetOffset] | None:
        """Behind the last copied record that is below both, on both sides; None without any."""
        begun = self._pieces.begun
        at = min(begun(SOURCE, source - 1), begun(TARGET, target - 1)) - 1
        if at < 0:
            return None
        first, other, records = self._pieces[at]
        step = min(records, source - first, target - other)
        return SourceOffset(first + step), TargetOffset(other + step)

    def records_from(self, target: TargetOffset) -> int:
        """Copied records at a target offset and behind it."""
        if not self._pieces:
            return 0
        at = max(self._pieces.begun(TARGET, target) - 1, 0)
        first = self._pieces[at]
        below = min(max(target - first.target, 0), first.records)
        return sum(piece.records for piece in self._pieces.since(at)) - below

    def between(self, first: TargetOffset, end: int) -> Iterator[Piece]:
        """What was copied to target offsets [first, end)."""
        for source, target, count in self._pieces.since(self._at(TARGET, first) or 0):
            skipped, stop = max(first - target, 0), min(count, end - target)
            if stop <= skipped:
                return
            yield Piece(source + skipped, target + skipped, stop - skipped)

    def add(self, run: Run) -> None:
        """Take a run; one that is known already changes nothing.

        Raises: CorruptBatchError when it says something else than a run before.
        """
        for piece in pieces_of(run):
            if piece.target < self._forgotten:
                self._insert_rest(piece)
            elif piece.target >= self.target_end:
                self._append(piece)
            else:
                self._insert(piece)
        self.source_end = max(self.source_end, run.source_end)
        self.target_end = max(self.target_end, run.target_end)

    def forget_below(self, source: SourceOffset, target: TargetOffset) -> int:
        """Forget what is below the begins of both logs; how many pieces.

        Kept is the last piece that does not begin above them, so the last one of all, too: every
        offset from there on has the answer that it had. Runs that were forgotten stay so.
        """
        begun = self._pieces.begun
        gone = min(begun(SOURCE, source), begun(TARGET, target)) - 1
        if gone <= 0:
            return 0
        self._pieces.drop(gone)
        self._forgotten = self._pieces[0].target
        return gone

    def to_target(self, offset: SourceOffset) -> Translated[TargetOffset] | None:
        """Where a group goes on that would read `offset` next; None when nothing was copied."""
        at = self._at(SOURCE, offset)
        if at is None:
            return None
        if at >= len(self._pieces):
            return Translated(self.target_end, Found.END)
        piece = self._pieces[at]
        found = Found.BEFORE if at == 0 and offset < piece.source else Found.EXACT
        return Translated(TargetOffset(piece.target + max(offset - piece.source, 0)), found)

    def to_source(self, offset: TargetOffset) -> Translated[SourceOffset] | None:
        """The way back, by the same rule."""
        at = self._at(TARGET, offset)
        if at is None:
            return None
        if at >= len(self._pieces):
            return Translated(self.source_end, Found.END)
        piece = self._pieces[at]
        found = Found.BEFORE if at == 0 and offset < piece.target else Found.EXACT
        return Translated(SourceOffset(piece.source + max(offset - piece.target, 0)), found)

    def _at(self, side: Side, offset: int) -> int | None:
        """The first piece that ends above `offset`; None without any piece."""
        if not self._pieces:
            return None
        at = self._pieces.begun(side, offset) - 1
        if at < 0:
            return 0
        piece = self._pieces[at]
        return at if offset < piece[side] + piece.records else at + 1

    def _append(self, piece: Piece) -> None:
        last = self._pieces[-1] if self._pieces else Piece(-1, -1, 0)
        source_end = last.source + last.records
        if piece.source < source_end:
            raise _disagree(piece, f"records up to source offset {source_end}")
        if piece.source == source_end and piece.target == last.target + last.records:
            self._pieces.grow_last(piece.records)
        else:
            self._pieces.append(piece)
        self.target_end = TargetOffset(piece.target + piece.records)

    def _insert_rest(self, piece: Piece) -> None:
        """What of a piece is not forgotten."""
        gone = self._forgotten - piece.target
        if gone < piece.records:
            self._insert(Piece(piece.source + gone, self._forgotten, piece.records - gone))

    def _insert(self, piece: Piece) -> None:
        """A piece that is known already, or fills a gap: blocks and segments overlap."""
        source, target, count = piece
        at = self._pieces.begun(TARGET, target)
        if at:
            before = self._pieces[at - 1]
            inside = target - before.target
            if inside < before.records:
                if source != before.source + inside:
                    raise _disagree(piece, before)
                known = min(count, before.records - inside)
                source, target, count = source + known, target + known, count - known
            elif source < before.source + before.records:
                raise _disagree(piece, before)
        if not count:
            return
        after = self._pieces[at] if at < len(self) else None
        room = count if after is None else after.target - target
        if room < count:
            self._insert(Piece(source + room, target + room, count - room))
            count = room
        if not count:
            return
        if after is not None and source + count > after.source:
            raise _disagree(piece, after)
        self._pieces.insert(at, Piece(source, target, count))


class OffsetIndex:
    """The maps of all partitions of a fleet."""

    def __init__(self) -> None:
        self._maps: dict[PartitionIdentity, PartitionMap] = {}

    def __len__(self) -> int:
        return len(self._maps)

    def add(self, identity: PartitionIdentity, runs: Iterable[Run]) -> None:
        """Raises: CorruptBatchError, naming the partition."""
        known = self._maps.get(identity)
        if known is None:
            known = self._maps[identity] = PartitionMap()
        try:
            for run in runs:
                known.add(run)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"offset map of {identity}: {error}") from None

    def add_segment(self, segment: Segment) -> None:
        """All runs of a transaction; raises as `add`."""
        for identity, runs in segment.runs:
            self.add(identity, runs)

    def add_block(self, block: Block) -> None:
        """All runs of an archive block; raises as `add`."""
        self.add(block.identity, block.runs)

    def forget_below(self, floors: Mapping[PartitionIdentity, Floor]) -> int:
        """Forget what is below both logs of a partition, as the packer does in the archive."""
        return sum(self._forget_below(identity, floor) for identity, floor in floors.items())

    def _forget_below(self, identity: PartitionIdentity, floor: Floor) -> int:
        known = self._maps.get(identity)
        if known is None:
            return 0
        is_below = known.source_end <= floor.source and known.target_end <= floor.target
        if floor.is_final and is_below:
            return len(self._maps.pop(identity))
        return known.forget_below(*floor)

    def of(self, identity: PartitionIdentity) -> PartitionMap | None:
        """The map of a partition; None when nothing of it was copied."""
        return self._maps.get(identity)

    @property
    def pieces(self) -> int:
        """Pieces of all maps."""
        return sum(map(len, self._maps.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return sum(one.nbytes for one in self._maps.values())


def pieces_of(run: Run) -> Iterator[Piece]:
    """A run cut at its holes."""
    source, target = int(run.source_start), int(run.target_start)
    for start, size in (*run.holes, (run.source_end, 0)):
        if start > source:
            yield Piece(source, target, start - source)
            target += start - source
        source = start + size


def _disagree(piece: Piece, known: object) -> CorruptBatchError:
    return CorruptBatchError(f"{piece} contradicts {known}: segments and archive disagree")
