"""The pieces of one partition in order: the newest as they are, older ones packed in chunks.

A commit makes a piece of every partition in it, because its marker is a hole at the target. Busy
partitions get tens of millions a day, so what is old takes two or three bytes and not 24.

    chunk 0         chunk 1         ...    tail
    gaps, counts    gaps, counts           sources, targets, counts
    packed          packed                 CHUNK to 2 * CHUNK pieces

Of each chunk the first source and target offset and the number of pieces before it are known, so a
question opens one chunk at most. Those that were opened last stay open, of all partitions together.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import add
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK: Final = 256
OPENED: Final = 1_024
"""Chunks that stay open: 6 MB."""
KEYS_BYTES: Final = 65
"""What a chunk takes beside its packed bytes: three keys, a pointer, the head of an object."""
SOURCE: Final = 0
TARGET: Final = 1
Side = Literal[0, 1]
_CODES: Final = "BHIQ"
"""Type codes of unsigned numbers, the smallest first."""


class Piece(NamedTuple):
    """Source [source, source + records) is target [target, target + records)."""

    source: int
    target: int
    records: int


class Columns(NamedTuple):
    """Some pieces in order: where they begin on both sides, and how many records they have."""

    sources: array[int]
    targets: array[int]
    counts: array[int]

    @classmethod
    def of(cls, *columns: Iterable[int]) -> Columns:
        """Arrays of their own."""
        sources, targets, counts = (array("q", column) for column in columns)
        return cls(sources, targets, counts)

    def cut(self, first: int, end: int | None = None) -> Columns:
        """Some of them."""
        return Columns(*(column[first:end] for column in self))


class Pieces:
    """A list of pieces that rise on both sides and overlap on none, which the caller sees to."""

    __slots__ = ("_chunk", "_firsts", "_packed", "_packed_bytes", "_starts", "_tail")

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self._packed: list[bytes] = []
        self._packed_bytes = 0
        self._firsts = (array("q"), array("q"))
        self._starts = array("q", [0])
        """Pieces before each chunk, and in all of them."""
        self._tail = Columns.of((), (), ())

    @property
    def _sealed(self) -> int:
        return self._starts[-1]

    def __len__(self) -> int:
        return self._sealed + len(self._tail.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        tail = sum(len(column) * column.itemsize for column in self._tail)
        return tail + self._packed_bytes + KEYS_BYTES * len(self._packed)

    def __getitem__(self, at: int) -> Piece:
        """Raises: IndexError, as a list."""
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(at)
        columns, inside = self._place(at)
        return Piece(*(column[inside] for column in columns))

    def begun(self, side: Side, offset: int) -> int:
        """How many begin at or below an offset of that side."""
        newest = self._tail[side]
        if not self._packed or offset >= newest[0]:
            return self._sealed + bisect_right(newest, offset)
        number = bisect_right(self._firsts[side], offset) - 1
        if number < 0:
            return 0
        return self._starts[number] + bisect_right(self._opened(number)[side], offset)

    def since(self, at: int) -> Iterator[Piece]:
        """All from one on."""
        while at < len(self):
            columns, inside = self._place(at)
            yield from map(Piece, *columns.cut(inside))
            at += len(columns.counts) - inside

    def append(self, piece: Piece) -> None:
        """Behind the last."""
        for column, value in zip(self._tail, piece, strict=True):
            column.append(value)
        self._seal()

    def grow_last(self, records: int) -> None:
        """The last one has so many more."""
        self._tail.counts[-1] += records

    def insert(self, at: int, piece: Piece) -> None:
        """Before one: rare, where what comes overlaps what is known."""
        more, inside = self._place(at)
        is_sealed = at < self._sealed
        if is_sealed:
            more = more.cut(0)  # what is open belongs to all who ask
        for column, value in zip(more, piece, strict=True):
            column.insert(inside, value)
        if not is_sealed:
            self._seal()
            return
        middle = self._chunk if len(more.counts) >= 2 * self._chunk else len(more.counts)
        halves = [each for each in (more.cut(0, middle), more.cut(middle)) if each.counts]
        self._replace(bisect_right(self._starts, at) - 1, halves)

    def drop(self, number: int) -> None:
        """Forget the first ones, not all."""
        if number >= self._sealed:
            for column in self._tail:
                del column[: number - self._sealed]
            self._forget_chunks(len(self._packed))
            return
        first = bisect_right(self._starts, number) - 1
        inside = number - self._starts[first]
        self._forget_chunks(first)
        if inside:
            self._replace(0, [self._opened(0).cut(inside)])

    # -- chunks

    def _place(self, at: int) -> tuple[Columns, int]:
        """Where a piece is, or comes behind the last."""
        if at >= self._sealed:
            return self._tail, at - self._sealed
        number = bisect_right(self._starts, at) - 1
        return self._opened(number), at - self._starts[number]

    def _opened(self, number: int) -> Columns:
        firsts = (column[number] for column in self._firsts)
        return _unpack(
            self._packed[number], *firsts, self._starts[number + 1] - self._starts[number]
        )

    def _sizes(self) -> list[int]:
        return [end - start for start, end in pairwise(self._starts)]

    def _count(self, sizes: list[int]) -> None:
        self._starts = array("q", accumulate(sizes, initial=0))

    def _seal(self) -> None:
        """Pack what is old of a tail that has become long."""
        while len(self._tail.counts) >= 2 * self._chunk:
            self._starts.append(self._sealed + self._chunk)
            self._put(len(self._packed), [self._tail.cut(0, self._chunk)])
            for column in self._tail:
                del column[: self._chunk]

    def _replace(self, number: int, by: list[Columns]) -> None:
        sizes = self._sizes()
        sizes[number : number + 1] = [len(each.counts) for each in by]
        self._packed_bytes -= len(self._packed.pop(number))
        for column in self._firsts:
            del column[number]
        self._put(number, by)
        self._count(sizes)

    def _put(self, number: int, new: list[Columns]) -> None:
        packed = [_pack(each) for each in new]
        self._packed[number:number] = packed
        self._packed_bytes += sum(map(len, packed))
        for side, column in enumerate(self._firsts):
            column[number:number] = array("q", [each[side][0] for each in new])

    def _forget_chunks(self, number: int) -> None:
        sizes = self._sizes()[number:]
        self._packed_bytes -= sum(map(len, self._packed[:number]))
        for column in (self._packed, *self._firsts):
            del column[:number]
        self._count(sizes)


def _pack(columns: Columns) -> bytes:
    """The holes before all but the first on both sides, and the counts, in as few bytes each."""
    sources, targets, counts = columns
    found = [_narrow(_gaps(sources, counts)), _narrow(_gaps(targets, counts)), _narrow(counts)]
    codes = "".join(column.typecode for column in found).encode()
    return codes + zlib.compress(b"".join(column.tobytes() for column in found), 1)


def _gaps(starts: array[int], counts: array[int]) -> list[int]:
    stretches = zip(pairwise(starts), counts[:-1], strict=True)
    return [after - start - size for (start, after), size in stretches]


def _narrow(values: Iterable[int]) -> array[int]:
    listed = list(values)
    most = max(listed, default=0)
    return array(next(code for code in _CODES if most < 256 ** array(code).itemsize), listed)


@lru_cache(maxsize=OPENED)
def _unpack(packed: bytes, source: int, target: int, size: int) -> Columns:
    raw, at = zlib.decompress(packed[3:]), 0
    found: list[array[int]] = []
    for code, length in zip(packed[:3].decode(), (size - 1, size - 1, size), strict=True):
        column = array(code)
        end = at + length * column.itemsize
        column.frombytes(raw[at:end])
        found.append(column)
        at = end
    before_sources, before_targets, counts = found
    return Columns.of(
        accumulate(map(add, counts, before_sources), initial=source),
        accumulate(map(add, counts, before_targets), initial=target),
        counts,
    )
