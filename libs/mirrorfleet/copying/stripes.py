"""Old backlog of one partition over several connections: disjoint offset ranges, put in order.

    connection 1   [ piece 0 ]              [ piece 3 ]
    connection 2        [ piece 1 ]              [ piece 4 ]
    connection 3             [ piece 2 ]              [ ... ]
                   ───────────────────────────────────────────> source offsets
    delivered      0 at once; 1 when 0 is whole; 2 when 1 is whole; ...

Far away, one connection brings a socket buffer per round trip, however fast the line is. Offsets
know nothing of bytes, so a piece is as many offsets as made the wanted bytes lately. It may need
several answers, and an answer may reach into the next piece: what comes twice is known by its
offset, because every answer is walked from where the partition stands. So seams need no cutting.

Where the log grows denser a piece is many times what it was thought to be. It ends where that is
seen, and what is behind it is cut into pieces anew: none may hold much more than its share.

A broker sends the batch with the first offset whole, and cuts the last one anywhere. So one that
lies across a seam comes with the piece behind it, and a piece is whole when only a part of that one
is missing: to ask again for so little would cost a round trip. A piece has at least twice the bytes
of the largest batch lately: none crosses the line many times.

A piece ends at most at the last stable offset that was known: behind it there is nothing to wait
for on many connections.

Only the piece in turn is asked for with the epoch of the batch before it, by which a leader tells
that its history is another one. So all pieces on the way are of one leader epoch: two leaders'
answers are never put together without that question between them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.schedule import SLOW_ANSWER_S
from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.batch import MAGIC, cut_off, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mirrorfleet.copying.budget import FrameLease
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.wire.copybatch import AbortedTransaction

SPARE: Final = 1.1
"""Ask for a little more than a piece is thought to have: a second answer costs a round trip."""
LEAST_BYTES: Final = 64 << 10
_LEARNT: Final = 0.5
"""Weight of the newest answer in the estimate of bytes an offset."""


@dataclass(frozen=True, slots=True)
class Part:
    """One answer's range of records, kept until its turn.

    `first`: the offset asked for, or where the first batch begins, if that is before it.
    """

    first: SourceOffset
    buffer: bytes | bytearray
    start: int
    end: int
    aborted: Sequence[AbortedTransaction]
    lease: FrameLease
    epoch: int | None = None
    """As `Answer` has it."""


@dataclass(slots=True, eq=False)
class Piece:
    """[first, end) of a partition; `at` comes next, `end` is None until an answer tells."""

    partition: CopyPartition
    first: SourceOffset
    end: SourceOffset | None
    at: SourceOffset
    max_bytes: int
    """What its next answer may bring: all of it, and later what is left."""
    rewinds: int
    leader_epoch: int = -1
    epoch: int | None = None
    """By whom it is asked for, as `Answer` has it."""
    parts: deque[Part] = field(default_factory=deque)
    dropped: bool = False
    """Nobody wants it any more: its partition is read in another way, or has another leader."""

    @property
    def ask_bytes(self) -> int:
        """What a request for it asks for; a smaller one would cost as much."""
        return max(self.max_bytes, LEAST_BYTES)

    @property
    def whole(self) -> bool:
        """Whether everything of it came."""
        return self.end is not None and self.at >= self.end

    @property
    def stale(self) -> bool:
        """Whether its answer is of no use: dropped, or asked for before a rewind."""
        return self.dropped or self.rewinds != self.partition.rewinds

    def drop(self) -> None:
        """Forget it, and give its memory back."""
        self.dropped = True
        for part in self.parts:
            part.lease.done()
        self.parts.clear()


class Stripes:
    """The pieces that are on the way, of all partitions that one slot reads from one broker."""

    def __init__(self, piece_bytes: int) -> None:
        self._set_bytes = self._most_bytes = self._piece_bytes = piece_bytes
        self._pieces: dict[CopyPartition, deque[Piece]] = {}
        self._bytes_an_offset: dict[CopyPartition, float] = {}
        self._largest: dict[CopyPartition, int] = {}
        """Bytes of the largest batch of each one's last answer."""
        self._turns = 0
        self._turn_of: dict[CopyPartition, int] = {}
        """When each was given a piece last: on few connections all have none on the way again and
        again, and the first would have all of them."""

    def timed(self, took_s: float) -> None:
        """An answer took so long: the next pieces are smaller when that was slow, or larger."""
        if took_s > SLOW_ANSWER_S:
            self._piece_bytes = max(self._piece_bytes // 2, LEAST_BYTES)
        else:
            self._piece_bytes = min(self._piece_bytes * 2, self._most_bytes)

    def fit(self, piece_bytes: int) -> None:
        """Pieces of at most so many bytes, from the next one on."""
        self._most_bytes = max(min(self._set_bytes, piece_bytes), LEAST_BYTES)
        self._piece_bytes = min(self._piece_bytes, self._most_bytes)

    def on_the_way(self, partition: CopyPartition) -> int:
        """Pieces of a partition that are not delivered yet."""
        return len(self._pieces.get(partition, ()))

    def keep(self, is_kept: Callable[[CopyPartition], bool]) -> None:
        """Drop the pieces of every partition that is not kept, or was rewound."""
        pieces = self._pieces.items()
        for gone in [each for each, its in pieces if not is_kept(each) or (its and its[0].stale)]:
            self.drop(gone)

    def drop(self, partition: CopyPartition) -> None:
        """Forget the pieces of a partition, and give their memory back."""
        for piece in self._pieces.pop(partition, ()):
            piece.drop()

    def cut(self, piece: Piece) -> None:
        """Forget a piece and all that is behind it; what is before it goes on."""
        self._drop_from(piece.partition, piece.first)

    def of_epoch(self, partition: CopyPartition, leader_epoch: int) -> None:
        """Drop the pieces of a partition that an earlier leader was asked for."""
        pieces = self._pieces.get(partition)
        if pieces and pieces[0].leader_epoch != leader_epoch:
            self.drop(partition)

    def next(
        self, partitions: Sequence[CopyPartition], room_for: Callable[[CopyPartition], int]
    ) -> Piece | None:
        """A new piece of the partition that has fewest on the way, and of those of the one that
        waits longest; None when there is nothing.

        A piece of several answers takes as many round trips, and all that is behind it waits in
        memory meanwhile: it is to be whole after one. So where there is no room for that
        (`room_for`, in bytes) there is none while others of its partition are on the way, which
        will make some, and else one as large as the room.

        Without an estimate there is one open piece, which is whole after its first answer.
        """
        open_ones = [each for each in partitions if self._left(each) > 0]
        able = [e for e in open_ones if not self.on_the_way(e) or room_for(e) >= self._whole(e)]
        if not able:
            return None
        partition = min(able, key=self._place)
        self._turns += 1
        self._turn_of[partition] = self._turns
        room = max(room_for(partition), LEAST_BYTES)
        first = self._next_first(partition)
        known = self._bytes_an_offset.get(partition)
        if known is None:
            end, size = None, min(room, self._piece_bytes)
        else:
            offsets = max(1, int(min(room, self._whole(partition)) / SPARE / known))
            end = SourceOffset(min(first + offsets, partition.source.last_stable))
            size = max(min(self._bytes_of(partition, end - first), room), LEAST_BYTES)
        piece = Piece(partition, first, end, first, size, partition.rewinds)
        self._pieces.setdefault(partition, deque()).append(piece)
        return piece

    def has_more(self, partitions: Sequence[CopyPartition]) -> bool:
        """Whether of any of them something is known to be there that is in no piece yet."""
        return any(self._left(each) > 0 for each in partitions)

    def answered(self, piece: Piece, part: Part) -> None:
        """Take an answer to `piece`; what may be delivered by that is for `in_turn` to say.

        Bytes that are no batches end the piece: whoever delivers them finds the fault.
        """
        partition, before, after = piece.partition, piece.at, piece.at
        begin: int = before
        used, largest = part.start, 0
        try:
            for header in walk(memoryview(part.buffer), part.start, part.end):
                if used == part.start and header.magic == MAGIC:  # it may begin before `before`
                    begin = min(before, header.base_offset)
                after = max(after, header.next_offset)
                largest = max(largest, header.end - used)
                used = header.end
        except CorruptBatchError:
            piece.end = after
        piece.at = after
        piece.parts.append(part if begin == before else replace(part, first=SourceOffset(begin)))
        if after > before:
            if piece.end is None or _comes_behind(piece.end, after, part, used):
                piece.end = after
            self._learn(partition, used - part.start, after - begin)
            self._largest[partition] = largest
            left = self._bytes_of(partition, max(piece.end - after, 0))
            piece.max_bytes = min(piece.max_bytes, left)
            if left > self._whole(partition):  # those behind it were measured as badly
                piece.end = after
                self._drop_from(partition, piece.first + 1)

    def in_turn(self, partition: CopyPartition) -> Part | None:
        """What comes next, to be delivered at once; None when that is not there.

        Nothing is ever delivered behind a gap: after a rewind all of it is fetched again.
        """
        pieces = self._pieces.get(partition)
        while pieces:
            head = pieces[0]
            if head.parts:
                if head.parts[0].first > partition.walked_to:
                    self.drop(partition)
                    return None
                return head.parts.popleft()
            if not head.whole:
                return None
            pieces.popleft()
        return None

    def _drop_from(self, partition: CopyPartition, first: int) -> None:
        """Forget the pieces that begin at an offset or behind it."""
        pieces = self._pieces.get(partition)
        while pieces and pieces[-1].first >= first:
            pieces.pop().drop()

    def _place(self, partition: CopyPartition) -> tuple[int, int]:
        return self.on_the_way(partition), self._turn_of.get(partition, 0)

    def _left(self, partition: CopyPartition) -> int:
        """Offsets that are not in a piece yet; 0 while the open piece tells nothing."""
        pieces = self._pieces.get(partition)
        if pieces and pieces[-1].end is None:
            return 0
        return partition.source.last_stable - self._next_first(partition)

    def _next_first(self, partition: CopyPartition) -> SourceOffset:
        """Where the next piece begins: behind all that any answer has reached.

        What a piece holds beyond its end is delivered before those behind it, or dropped with them.
        """
        pieces = self._pieces.get(partition, ())
        reached = [max(each.at, each.end or each.at) for each in pieces]
        return max([partition.walked_to, *reached])

    def _whole(self, partition: CopyPartition) -> int:
        """Bytes to ask for where memory has room: of large batches at least two."""
        return int(max(self._piece_bytes, 2 * self._largest.get(partition, 0)) * SPARE)

    def _bytes_of(self, partition: CopyPartition, offsets: int) -> int:
        """What to ask for to have so many offsets, by the estimate that there is."""
        return int(offsets * self._bytes_an_offset[partition] * SPARE)

    def _learn(self, partition: CopyPartition, size: int, offsets: int) -> None:
        newest = size / offsets
        known = self._bytes_an_offset.get(partition)
        self._bytes_an_offset[partition] = (
            newest if known is None else known + (newest - known) * _LEARNT
        )


def _comes_behind(end: SourceOffset, after: SourceOffset, part: Part, used: int) -> bool:
    """Whether all that is missing of a piece, which ends at `end`, is in one batch that comes whole
    with the piece behind it, as its header says that is there; `after` is reached, in `used` bytes.
    """
    cut = cut_off(part.buffer, used, part.end) if after < end else None
    return cut is not None and cut[0] == after and cut[1] > end
