"""A slot that is this worker's and is not copied: since when, and what is told of it meanwhile.

Fencing makes the slot forget its partitions. Who asks how they do must hear of them all the same,
or a slot that nobody can take looks like one in which there is nothing to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.lifecycle import SlotState

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner


class Untaken:
    """The time of one slot between two holds."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._is_known = False
        self.since: float | None = None
        """Monotonic seconds; None while the slot is copied, or another worker's."""

    def moved(self, state: SlotState) -> None:
        """The slot is in that state now."""
        match state:
            case SlotState.COPYING:
                self.since, self._is_known = None, True
            case SlotState.LOST | SlotState.RELEASED:
                self.since, self._is_known = None, False  # others may copy on from here
            case _ if self.since is None:
                self.since = self._runner.clock.monotonic()

    @property
    def partitions(self) -> list[CopyPartition]:
        """As we left them, as long as nobody else can have moved them."""
        runner = self._runner
        if self.since is None or not self._is_known:
            return []
        again = runner.slot.partitions.keys() | runner.unstarted.keys()
        told = runner.entries.keys() - again
        return [p for identity, p in runner.slot.remembered.items() if identity in told]
