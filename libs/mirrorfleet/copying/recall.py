"""The memory of a slot, read from the end of its positions partition backwards.

    log start ... | window 3 | window 2 |   window 1    │ our barrier
                                 ^ a snapshot: nothing before it counts

Each window is read forwards, and what a later window said of a key stands. So a take-over reads as
much as was written since the last snapshot, however long the log is. Only the newest record of
each key is decoded: one of an unknown version that was overwritten since cannot rewind anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.records import positions as codec
from mirrorfleet.records.positions import SNAPSHOT_KEY, Barrier, Fence, Position, Quarantine

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity

WINDOW: Final = 256
"""Offsets of the first window: an owner that gave the slot away has left a snapshot there."""
GROWTH: Final = 8
"""Each window before it is so much larger."""


class Recall:
    """What is known of a slot; complete once a snapshot or the start of the log was read."""

    def __init__(self, barrier: tuple[bytes, bytes | None] | None) -> None:
        """`barrier` is the encoded record at which the read ends, or None."""
        self.complete = False
        self._barrier = barrier
        self._newest: dict[bytes, bytes | None] = {}
        self._window: dict[bytes, bytes | None] = {}

    def take(self, key: bytes, value: bytes | None) -> bool:
        """One committed record of the window, in order; True when it is the barrier."""
        if key == SNAPSHOT_KEY:
            self.complete = True
            self._window.clear()
        self._window[key] = value
        return (key, value) == self._barrier

    def window_done(self) -> None:
        """The window is read; the next one is before it."""
        self._newest = {**self._window, **self._newest}
        self._window = {}

    def positions(self) -> dict[PartitionIdentity, Position]:
        """The newest position of each partition.

        Raises: UnknownVersionError, CorruptBatchError.
        """
        found = (codec.decode(key, value) for key, value in self._newest.items())
        return {entry.identity: entry for entry in found if isinstance(entry, Position)}

    def fence(self) -> Fence | None:
        """The fence of an operator, if there is one."""
        entry = self._newest_of(codec.FENCE_KEY)
        return entry if isinstance(entry, Fence) else None

    def quarantine(self) -> Quarantine | None:
        """The quarantine under which the slot was copied last, if it did not end."""
        entry = self._newest_of(codec.QUARANTINE_KEY)
        return entry if isinstance(entry, Quarantine) else None

    def owner(self) -> str:
        """Who took the slot last with its main id, or wrote a snapshot since; empty: nobody."""
        entry = self._newest_of(codec.BARRIER_KEY)
        return entry.owner if isinstance(entry, Barrier) else ""

    def _newest_of(self, key: bytes) -> codec.Entry | None:
        value = self._newest.get(key)
        return None if value is None else codec.decode(key, value)
