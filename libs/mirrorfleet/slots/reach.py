"""Which partitions of a slot have a source broker that answers.

Less urgent backlog waits for the more urgent (`copying/urgency`), but not for one that nobody can
fetch: while its leader is gone, or a broker is out of reach, the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.slots import replicas

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


class Reach:
    """Brokers of the source that could not be connected to or were lost, until they answer."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._away: set[int] = set()
        runner.sources.on_change(self._look)

    def lost(self, node: int) -> None:
        """A connection to a broker failed."""
        self._away.add(node)
        self._look()

    def found(self, node: int) -> None:
        """A broker was connected to."""
        self._away.discard(node)
        self._look()

    def _look(self) -> None:
        now = self._runner.clock.monotonic()
        for partition in self._runner.slot.partitions.values():
            at = replicas.fetched_from(self._runner, partition, now)
            if at is not None and at.node not in self._away:
                partition.away_since = None
            elif partition.away_since is None:
                partition.away_since = now
