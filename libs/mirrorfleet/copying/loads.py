"""Bytes a second that each slot copies, averaged so that no slot moves for a short burst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.core.ids import PartitionIdentity, SlotNumber
    from mirrorfleet.records.members import Loads

    Copied = Mapping[PartitionIdentity, int]

CAUGHT_UP_S: Final = 15.0
"""What a slot copies for so long after it came is what waited while it had no owner, not its load:
counted, it would weigh several times what it will, and its worker be given too few others."""
SETTLED_S: Final = 10.0
"""A slot that was watched for less after that says nothing yet."""
MEMORY_S: Final = 30.0
"""What was measured so long ago counts about a third."""


@dataclass(slots=True)
class _Rate:
    copied: Copied
    came: float
    since: float
    at: float
    rate: float = 0.0


class LoadMeter:
    """Rates of the slots that a worker holds; times are monotonic seconds."""

    def __init__(self) -> None:
        self._rates: dict[SlotNumber, _Rate] = {}

    def sample(self, copied: Mapping[SlotNumber, Copied], now: float) -> None:
        """Bytes that each partition ever copied, of each slot that is held; others are forgotten.

        Of a partition that joins its slot, all that it copied before is no load.
        """
        self._rates = {slot: one for slot, one in self._rates.items() if slot in copied}
        for slot, totals in copied.items():
            known = self._rates.get(slot)
            if known is None:
                self._rates[slot] = _Rate(totals, now, now, now)
            elif now - known.came <= CAUGHT_UP_S:
                known.copied, known.since, known.at = totals, now, now
            elif now > known.at:
                passed = now - known.at
                share = min(passed / min(max(now - known.since, passed), MEMORY_S), 1.0)
                known.rate += share * (_grown(known.copied, totals) / passed - known.rate)
                known.copied, known.at = totals, now

    def loads(self) -> Loads:
        """Bytes a second of the slots that were watched for long enough."""
        return {
            slot: int(one.rate)
            for slot, one in sorted(self._rates.items())
            if one.at - one.since >= SETTLED_S
        }


def _grown(before: Copied, totals: Copied) -> int:
    """Bytes that came since, of the partitions that were there before."""
    return sum(max(totals[one] - was, 0) for one, was in before.items() if one in totals)
