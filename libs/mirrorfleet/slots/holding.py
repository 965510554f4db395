"""Partitions that are left out because their target cannot be written to: no leader, or in doubt;
or the ledger, which has to be told of what they pass.

    fetched ── cannot be sent ──> dropped, not fetched for 1, 2, 4 ... 30 s ──> fetched ...
                                                 └── it can again ──> fetched at once

What waits would hold memory, so it is dropped and comes over the line again each time. Now and then
it is fetched all the same: otherwise nobody would see where the source is by now.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.slots import healing, ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner

SHORTEST_S: Final = 1.0
"""Most are back by then: an election takes less."""
LONGEST_S: Final = 30.0
"""And a broker that is down may be so for hours."""
LOOK_S: Final = 0.2
"""Between two looks at them, however often the slot sends what is of others."""


class _Hold(NamedTuple):
    """How long a partition is left out this time, and up to when (monotonic seconds).

    `untold`: the ledger cannot be told of it. What that is comes again when it is fetched.
    """

    for_s: float
    until: float
    untold: bool


class HeldBack:
    """Those of one slot."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._holds: dict[CopyPartition, _Hold] = {}
        self._looked_at = -inf

    def add(self, partition: CopyPartition) -> None:
        """It cannot be sent: drop what is queued, and leave it out for longer than the last time.

        Nothing of it may be in the open transaction.
        """
        before = self._holds.get(partition)
        for_s = SHORTEST_S if before is None else min(2 * before.for_s, LONGEST_S)
        untold = ledger.must_wait(self._runner, partition)
        hold = _Hold(for_s, self._runner.clock.monotonic() + for_s, untold)
        self._holds[partition] = hold
        self._runner.slot.hold_back(partition, hold.until)
        self._runner.targets.ask()
        self._judge(partition)

    def look(self, may_be_sent: Callable[[CopyPartition], bool]) -> None:
        """End what is over; of the others it may be known by now that they have to stop."""
        runner = self._runner
        now = runner.clock.monotonic()
        if not self._holds or now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        for partition, hold in list(self._holds.items()):
            if runner.slot.partitions.get(partition.identity) is not partition:
                del self._holds[partition]
            elif may_be_sent(partition) and not (hold.untold and not ledger.is_open(runner)):
                del self._holds[partition]
                if partition.held_until == hold.until:  # else it waits for something else, too
                    partition.held_until = 0.0
                    runner.reroute()
            elif partition.fault is None:
                self._judge(partition)

    def _judge(self, partition: CopyPartition) -> None:
        healing.judge_target(self._runner, partition, partition.committed.next_source)
