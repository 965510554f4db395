"""Which slot a partition gets: the least loaded of its link, and never another one afterwards.

Slot numbers are global in a fleet: each link has numbers of its own. No hash decides, because a
hash moves partitions when the number of slots changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mirrorfleet.core.ids import SlotNumber


class SlotLoad:
    """Partitions by slot of one link."""

    def __init__(self, slots: Sequence[SlotNumber], taken: Iterable[SlotNumber]) -> None:
        self._count = Counter(dict.fromkeys(slots, 0))
        for slot in taken:
            if slot in self._count:
                self._count[slot] += 1

    def assign(self) -> SlotNumber:
        """The least loaded slot, the lowest of equals; it counts from now on."""
        slot = min(self._count, key=lambda one: (self._count[one], one))
        self._count[slot] += 1
        return slot


def slots_of_link(
    have: Sequence[SlotNumber], wanted: int, used_elsewhere: Iterable[SlotNumber]
) -> tuple[SlotNumber, ...]:
    """The link's slots: those it has, and the next free numbers up to `wanted`. Never fewer."""
    missing = max(0, wanted - len(have))
    first = max([-1, *have, *used_elsewhere]) + 1
    return (*have, *(SlotNumber(first + number) for number in range(missing)))
