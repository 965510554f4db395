"""Segments and archive made of lists; dies at a step when told to."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.mapping.store import Bounds, Entry, StoredSegment
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
        self.lives = -1
        """Calls until it dies; never when negative."""

    @property
    def kept(self) -> list[Segment]:
        return [one.segment for one in self._segments if one.offset >= self.start]

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

    async def segments(self, slot: SlotNumber, begin: int, end: int) -> list[StoredSegment]:
        self._call("segments")
        return [one for one in self._segments if begin <= one.offset < end]

    async def archive(self, slot: SlotNumber, begin: int, end: int) -> list[Entry]:
        self._call("archive")
        return self.log[begin:end]

    async def write(self, slot: SlotNumber, entries: Sequence[Entry]) -> None:
        """Dies after half of what it writes."""
        if self.lives == 0:
            self.log += entries[: len(entries) // 2]
        self._call("write")
        self.log += entries

    async def free(self, slot: SlotNumber, before: int) -> None:
        self._call("free")
        self.start = before
