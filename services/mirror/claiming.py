"""What this worker claims of slots when they are shared out: which it can copy, what they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.contact import Contact
from mirrorfleet.copying.loads import LoadMeter
from mirrorfleet.records.members import Carried, Known
from services.mirror import reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mirrorfleet.core.ids import ClusterAlias, SlotNumber
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.records.members import Slots
    from mirrorfleet.slots.runner import SlotRunner


class Claiming:
    """The slots of a fleet as one worker sees them, with what it measured of its own."""

    def __init__(
        self, clock: Clock, held: Callable[[], Slots], ours: Callable[[], Iterable[SlotRunner]]
    ) -> None:
        """`held`: what the group gave us last; `ours`: what runs here."""
        self._clock, self._held, self._ours = clock, held, ours
        self._slots: Slots = frozenset()
        self._sources: Mapping[SlotNumber, ClusterAlias] = {}
        self._reached: Collection[ClusterAlias] = ()
        self._contacts: dict[ClusterAlias, Contact] = {}
        self._meter = LoadMeter()

    def learned(
        self,
        slots: Slots,
        sources: Mapping[SlotNumber, ClusterAlias],
        reached: Collection[ClusterAlias],
    ) -> None:
        """All slots of the fleet, the sources of those that have something to copy, and those of
        the sources that we have met, with what we had to look at before we may copy from them.
        """
        self._slots, self._sources, self._reached = slots, sources, reached

    def meets(self, source: ClusterAlias) -> Contact:
        """A source was reached for the first time; its contact has to be kept from now on."""
        contact = self._contacts[source] = Contact(self._clock.monotonic())
        return contact

    def known(self) -> Known:
        """The slots as of now."""
        now, held = self._clock.monotonic(), self._held()
        busy = frozenset(
            slot
            for slot, source in self._sources.items()
            if source in self._reached
            and self._contacts[source].is_reached(now, is_own=slot in held)
        )
        return Known(self._slots, busy, frozenset(self._sources) - busy)

    def carried(self) -> Carried:
        """How the slots are that run here."""
        diverted = frozenset(each.number for each in self._ours() if each.wedges.left_behind)
        return Carried(self._meter.loads(), diverted)

    def sample(self) -> None:
        """Measure once more what the slots carry."""
        copied = {r.number: reporting.copied(r) for r in self._ours() if r.slot.partitions}
        heard_at = {
            slot: self._contacts[source].heard_at
            for slot, source in self._sources.items()
            if source in self._contacts
        }
        self._meter.sample(copied, self._clock.monotonic(), heard_at)
