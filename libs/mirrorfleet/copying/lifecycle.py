"""The life of a slot: a table of states and the only legal moves between them.

WAITING ──> FENCING ──> READING ──> COPYING ──> RELEASED
   ^           │           │           │
   └───────────┴───────────┴───────────┘  (failure: wait, then fence again)
               any ──> LOST   another owner holds the slot; never taken back by force
     RELEASED, LOST ──> WAITING   the group gives the slot to this worker again
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import MirrorfleetError


class SlotState(StrEnum):
    """Where a slot is; the value is its metric label."""

    WAITING = "waiting"
    FENCING = "fencing"
    READING = "reading"
    COPYING = "copying"
    RELEASED = "released"
    LOST = "lost"


_MOVES: Final = {
    SlotState.WAITING: {SlotState.FENCING, SlotState.RELEASED, SlotState.LOST},
    SlotState.FENCING: {SlotState.READING, SlotState.WAITING, SlotState.LOST, SlotState.RELEASED},
    SlotState.READING: {SlotState.COPYING, SlotState.WAITING, SlotState.LOST, SlotState.RELEASED},
    SlotState.COPYING: {SlotState.WAITING, SlotState.LOST, SlotState.RELEASED},
    SlotState.RELEASED: {SlotState.WAITING},
    SlotState.LOST: {SlotState.WAITING, SlotState.RELEASED},
}


class IllegalMoveError(MirrorfleetError):
    """Raised when a slot is asked for a move that its state does not allow: a defect of ours."""


def moved(old: SlotState, new: SlotState) -> SlotState:
    """The new state.

    Raises:
        IllegalMoveError: the table has no such move.
    """
    if new is not old and new not in _MOVES[old]:
        raise IllegalMoveError(f"slot: {old} -> {new} is no legal move")
    return new
