"""When all positions of a slot are written once more, so that its next owner reads few records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.records.positions import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.positions import Barrier, Entry, Position, Quarantine

EVERY: Final = 512
"""Records of positions, with their markers, between two snapshots."""
SHARE: Final = 4
"""A snapshot is at most a fourth of what is written."""
_NONE: Final = 1 << 62


class Snapshots:
    """Counts what was written since the last one; a new owner begins with one."""

    def __init__(self) -> None:
        self.barrier: Barrier | None = None
        """Of the owner: a snapshot repeats it, for nothing before a snapshot is read."""
        self.quarantine: Quarantine | None = None
        """Under which the slot is copied with its spare id."""
        self._written = _NONE
        self._is_stated = False

    def forget(self) -> None:
        """Nothing of the slot is known any more."""
        self.barrier = self.quarantine = None
        self._written, self._is_stated = _NONE, False

    @property
    def is_due(self) -> bool:
        """Whether the next positions are written with all others, however few they are."""
        return self._written >= _NONE

    def stated(
        self,
        known: Mapping[PartitionIdentity, Position],
        positions: Sequence[Position],
        now_ms: int,
    ) -> Sequence[Entry]:
        """What is written with these positions: now and then a snapshot of all that are known."""
        self._written += len(positions) + 1  # and a marker
        if self._written < max(EVERY, SHARE * len(known)):
            return positions
        self._is_stated = True
        every = {**known, **{position.identity: position for position in positions}}
        return self.all(every.values(), now_ms)

    def all(self, positions: Collection[Position], now_ms: int) -> list[Entry]:
        """All that a new owner must know of the slot, `positions` being all of them."""
        slots = [each for each in (self.barrier, self.quarantine) if each is not None]
        return [Snapshot(count=len(positions), time_ms=now_ms), *slots, *positions]

    def lost(self) -> None:
        """What was written before may be gone: the next positions are written with all others."""
        self._written = _NONE

    def committed(self) -> None:
        """What was stated last is true."""
        if self._is_stated:
            self._written, self._is_stated = 0, False

    def aborted(self) -> None:
        """What was stated last was never written."""
        self._is_stated = False
