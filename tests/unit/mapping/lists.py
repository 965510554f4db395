"""Segments and archive made of lists; dies at a step when told to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.mapping.store import Bounds, Entry, StoredEntry, StoredSegment, StoredSegments
from mirrorfleet.offsets.packing import segment_weight
from mirrorfleet.records.segments import Segment
from mirrorfleet.records.topics import ControlKind


class DiedError(Exception):
    """The packer's process is gone."""


class ListStore:
    """A `MapStore` of one slot. A segment takes two offsets: its record and a marker."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = [StoredSegment(2 * at, one) for at, one in enumerate(segments)]
        self.log: list[Entry] = []
        self.start = 0
        self.calls: list[str] = []
        self.read: list[int] = []
        """Offsets of the archive that were given out."""
        self.cleaned: set[int] = set()
        """Offsets of the archive that compaction took."""
        self._vanishing: Collection[int] = ()
        self.lives = -1
        """Calls until it dies; never when negative."""

    @property
    def kept(self) -> list[Segment]:
        return [one.segment for one in self._segments if one.offset >= self.start]

    def append(self, segment: Segment) -> None:
        self._segments.append(StoredSegment(2 * len(self._segments), segment))

    def compact(self) -> None:
        """As late as can be: of each key the last value is left, and no tombstone."""
        last = {key: offset for offset, (key, _) in enumerate(self.log)}
        self.cleaned.update(
            offset
            for offset, (key, value) in enumerate(self.log)
            if value is None or last[key] != offset
        )

    def vanish_after_a_read(self, offsets: Collection[int]) -> None:
        """Compaction takes these as soon as they were given out."""
        self._vanishing = offsets

    def _call(self, name: str) -> None:
        if self.lives == 0:
            raise DiedError
        self.lives -= 1
        self.calls.append(name)

    async def bounds(self, kind: ControlKind, slot: SlotNumber) -> Bounds:
        self._call(f"bounds {kind}")
        if kind is ControlKind.ARCHIVE:
            return Bounds(0, len(self.log))
        return Bounds(self.start, 2 * len(self._segments))

    async def segments(
        self, slot: SlotNumber, begin: int, end: int, *, most: int
    ) -> StoredSegments:
        self._call("segments")
        found: list[StoredSegment] = []
        weight = 0
        for one in self._segments:
            if begin <= one.offset < end:
                found.append(one)
                weight += segment_weight(one.segment)
                if weight >= most:
                    return StoredSegments(found, one.offset + 1)
        return StoredSegments(found, end)

    async def archive(
        self, slot: SlotNumber, begin: int, end: int
    ) -> AsyncGenerator[StoredEntry, None]:
        self._call("archive")
        for offset in range(begin, min(end, len(self.log))):
            key, value = self.log[offset]
            if offset not in self.cleaned:
                self.read.append(offset)
                if offset in self._vanishing:
                    self.cleaned.add(offset)
                yield StoredEntry(offset, key, value)

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        """Dies after half of what it writes."""
        if self.lives == 0:
            self.log += entries[: len(entries) // 2]
        self._call("write")
        self.log += entries

    async def free(self, slot: SlotNumber, before: int) -> None:
        self._call("free")
        self.start = before
