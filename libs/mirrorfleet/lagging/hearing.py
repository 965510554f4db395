"""Who is deaf and who is silent: where partitions of `.progress` end, against what came of them.

A stream may stand still without an error. Then an end moves and nothing comes; where the end
stands, the worker is silent. Looks are counted here and not time, so that a pause of the process
or a step of its clock is taken for no silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import SlotNumber


class Hearing:
    """What of each slot is written and has not come."""

    def __init__(self) -> None:
        self._next: dict[SlotNumber, int] = {}
        """The offset that comes next; at the first look the end: who has a slot read all of it."""
        self._lacked: dict[SlotNumber, int] = {}
        """Looks that found the end above it since anything came."""
        self._unseen: set[SlotNumber] = set()
        """Those of which the last look learned no end: nobody knows whether anything is written."""

    def came(self, slot: SlotNumber, offset: int) -> None:
        """Any record of the slot, also one that we cannot read."""
        self._next[slot] = offset + 1
        self._lacked.pop(slot, None)
        self._unseen.discard(slot)

    def ended(self, slot: SlotNumber, end: int) -> None:
        """A look found the slot's partition to end there."""
        self._unseen.discard(slot)
        if end > self._next.setdefault(slot, end):
            self._lacked[slot] = self._lacked.get(slot, 0) + 1
        else:
            self._lacked.pop(slot, None)

    def unseen(self, slots: Iterable[SlotNumber]) -> None:
        """A look is over, and the leaders of these have told no end."""
        self._unseen = set(slots)

    def forget(self, slot: SlotNumber) -> None:
        """The slot is not ours, or ours anew."""
        self._next.pop(slot, None)
        self._lacked.pop(slot, None)
        self._unseen.discard(slot)

    def lacks(self, slot: SlotNumber) -> bool:
        """Whether more is written than came: a judgement would not know it."""
        return slot in self._lacked and slot not in self._unseen

    def is_blind(self, slot: SlotNumber) -> bool:
        """Whether we could not see it if anything were written."""
        return slot in self._unseen

    def stalled(self, looks: int) -> list[SlotNumber]:
        """The slots of which nothing came for so many looks, though more is written."""
        return [slot for slot, lacked in self._lacked.items() if lacked >= looks]
