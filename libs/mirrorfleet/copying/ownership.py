"""Which slots a worker holds: what the group gave, what it took away, what another one fenced.

    (none) ──given──> AWAITED ──released by its owner, or in vain for 2 s──> HELD
                         ^  ^                                              │    │
                         │  └──ended── RETURNING <──given again──┐   taken away │ fenced
                         │                                       │         v    v
                         │                                    LEAVING <────┘  DROPPED
                         │                                       └──ended──> (none)  │
                         └──────────the coordinator says that we are a member────────┘

The group says who should write; who may is decided by fencing alone. So a slot that is kept is not
touched by a rebalance, and one that was fenced is not taken again on our own word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from mirrorfleet.copying.sharing import Share
    from mirrorfleet.core.ids import SlotNumber

PATIENCE_S: Final = 2.0
"""A living owner drains and releases within this; then it is fenced."""


class Standing(StrEnum):
    """What we have to do with a slot; the value is for people."""

    AWAITED = "awaited"
    HELD = "held"
    LEAVING = "leaving"
    RETURNING = "returning"
    DROPPED = "dropped"


class End(StrEnum):
    """How the run of a slot ended."""

    DRAINED = "drained"
    FENCED = "fenced"


class Steps(NamedTuple):
    """Slots to begin and to end now, each in order."""

    begin: tuple[SlotNumber, ...]
    end: tuple[SlotNumber, ...]


@dataclass(slots=True)
class _Slot:
    standing: Standing
    begin_at: float = 0.0


_GIVEN: Final = {
    Standing.AWAITED: Standing.AWAITED,
    Standing.HELD: Standing.HELD,
    Standing.LEAVING: Standing.RETURNING,
    Standing.RETURNING: Standing.RETURNING,
    Standing.DROPPED: Standing.DROPPED,
}
"""What we have of a slot that a share gives."""

_TAKEN: Final = {
    Standing.AWAITED: None,
    Standing.HELD: Standing.LEAVING,
    Standing.LEAVING: Standing.LEAVING,
    Standing.RETURNING: Standing.LEAVING,
    Standing.DROPPED: None,
}
"""What we have of a slot that a share does not give."""

_ENDED: Final = {
    (Standing.HELD, End.FENCED): Standing.DROPPED,
    (Standing.HELD, End.DRAINED): None,
    (Standing.LEAVING, End.FENCED): None,
    (Standing.LEAVING, End.DRAINED): None,
    (Standing.RETURNING, End.FENCED): Standing.DROPPED,
    (Standing.RETURNING, End.DRAINED): Standing.AWAITED,
}
"""What we have of a slot whose run ended."""


class Ownership:
    """The slots of one worker. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._slots: dict[SlotNumber, _Slot] = {}
        self._ending: list[SlotNumber] = []

    def standing(self, slot: SlotNumber) -> Standing | None:
        """Where a slot is; None when we have nothing to do with it."""
        found = self._slots.get(slot)
        return None if found is None else found.standing

    def with_standing(self, standing: Standing) -> tuple[SlotNumber, ...]:
        """The slots that stand so, in order."""
        return tuple(sorted(s for s, each in self._slots.items() if each.standing is standing))

    def given(self, share: Share, now: float) -> None:
        """A new generation: what it does not give is left, what it gives is kept or awaited."""
        for slot, each in list(self._slots.items()):
            if slot not in share.slots:
                self._change(slot, each, _TAKEN[each.standing])
        for slot in share.slots:
            begin_at = now + (PATIENCE_S if slot in share.handed else 0.0)
            known = self._slots.get(slot)
            if known is None:
                self._slots[slot] = _Slot(Standing.AWAITED, begin_at)
                continue
            if known.standing is Standing.HELD and slot in share.handed:
                # somebody had it meanwhile, so what we hold is fenced
                self._change(slot, known, Standing.LEAVING)
            if known.standing is not Standing.AWAITED:
                known.begin_at = begin_at
            self._change(slot, known, _GIVEN[known.standing])

    def released(self, slot: SlotNumber) -> None:
        """Its former owner has drained it: no need to wait."""
        known = self._slots.get(slot)
        if known is not None:
            known.begin_at = 0.0

    def ended(self, slot: SlotNumber, end: End) -> None:
        """The run of a slot is over."""
        self._ending = [each for each in self._ending if each != slot]  # nothing is left to end
        known = self._slots.get(slot)
        if known is not None:
            self._change(slot, known, _ENDED[known.standing, end])

    def confirmed(self, slots: Collection[SlotNumber]) -> None:
        """The coordinator said, after these were dropped, that we are a member with this share."""
        for slot in slots:
            known = self._slots[slot]
            if known.standing is Standing.DROPPED:
                self._change(slot, known, Standing.AWAITED)

    def steps(self, now: float) -> Steps:
        """What to begin and end now; what begins is held from here on."""
        begin = tuple(s for s in self.with_standing(Standing.AWAITED) if self._due(s, now))
        for slot in begin:
            self._slots[slot].standing = Standing.HELD
        end, self._ending = tuple(self._ending), []
        return Steps(begin, end)

    def next_at(self) -> float:
        """When something that is awaited begins at the latest; infinity when nothing is."""
        waiting = self.with_standing(Standing.AWAITED)
        return min((self._slots[slot].begin_at for slot in waiting), default=float("inf"))

    def _due(self, slot: SlotNumber, now: float) -> bool:
        return now >= self._slots[slot].begin_at

    def _change(self, slot: SlotNumber, known: _Slot, new: Standing | None) -> None:
        if new is None:
            del self._slots[slot]
            return
        if known.standing is Standing.HELD and new is Standing.LEAVING:
            self._ending.append(slot)
        known.standing = new
