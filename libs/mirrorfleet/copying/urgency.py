"""Which backlog of a worker is copied first: that of high priority, in all of its slots.

Only catching up waits for others. The live tail of a partition never does, so a high backlog that
does not end costs the others their backlog's time and nothing else. For one that does not move,
because nobody can fetch it or nothing of it can be committed, no other waits either, nor for one
with a `throttle`, which leaves the line to others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.records.catalog import Priority

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import SlotNumber

RANK: Final = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
"""The most urgent is the least."""
NOTHING: Final = len(RANK)
STANDING_S: Final = 10.0
"""No commit has moved it for so long: it is not waited for until one does."""


def rank(priorities: Iterable[Priority]) -> int:
    """The rank of the most urgent; `NOTHING` of none."""
    return min((RANK[priority] for priority in priorities), default=NOTHING)


class Urgency:
    """The most urgent backlog of each slot of a worker."""

    def __init__(self) -> None:
        self._by_slot: dict[SlotNumber, int] = {}

    def note(self, slot: SlotNumber, its_rank: int) -> None:
        """A slot has a backlog of that rank at best; `NOTHING` when it has none or is left."""
        self._by_slot[slot] = its_rank

    @property
    def turn(self) -> int:
        """The rank that is copied now; who has a greater one waits."""
        return min(self._by_slot.values(), default=NOTHING)
