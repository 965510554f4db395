"""Bytes a second that each slot copies, averaged so that no slot moves for a short burst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import SlotNumber

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.members import Loads

    Copied = Mapping[PartitionIdentity, int]

CAUGHT_UP_S: Final = 15.0
"""What a slot copies for so long after it came, or after its source was away for longer than that,
is what has waited, not its load: counted, it would weigh several times what it will, and its worker
be given too few others."""
SETTLED_S: Final = 10.0
"""A slot that was watched for less after that says nothing yet."""
MEMORY_S: Final = 30.0
"""What was measured so long ago counts about a third."""
_ALL_ANSWER: Final[Mapping[SlotNumber, float]] = MappingProxyType({})


@dataclass(slots=True)
class _Rate:
    copied: Copied
    at: float
    """Up to when it was measured."""
    counts_at: float
    """What it copied before this had waited."""
    watched_s: float = 0.0
    rate: float = 0.0
    is_silent: bool = False
    """Whether its source has not answered since `at`."""


class LoadMeter:
    """Rates of the slots that a worker holds; times are monotonic seconds."""

    def __init__(self) -> None:
        self._rates: dict[SlotNumber, _Rate] = {}

    def sample(
        self,
        copied: Mapping[SlotNumber, Copied],
        now: float,
        heard_at: Mapping[SlotNumber, float] = _ALL_ANSWER,
    ) -> None:
        """Bytes that each partition ever copied, of each slot that is held; others are forgotten.

        Of a partition that joins its slot, all that it copied before is no load. `heard_at` is when
        the source of a slot answered last; one that it does not name has answered just now.
        """
        self._rates = {slot: one for slot, one in self._rates.items() if slot in copied}
        for slot, totals in copied.items():
            known = self._rates.get(slot)
            if known is None:
                self._rates[slot] = _Rate(totals, now, now + CAUGHT_UP_S)
            elif heard_at.get(slot, now) <= known.at and not _grown(known.copied, totals):
                known.is_silent = True  # that nothing comes says nothing of its load
            else:
                _measure(known, totals, now)

    def loads(self) -> Loads:
        """Bytes a second of the slots that were watched for long enough."""
        return {
            slot: int(one.rate)
            for slot, one in sorted(self._rates.items())
            if one.watched_s >= SETTLED_S
        }


def _measure(known: _Rate, totals: Copied, now: float) -> None:
    passed = now - known.at
    if known.is_silent and passed > CAUGHT_UP_S:  # its source was away
        known.counts_at = now + CAUGHT_UP_S
    if now > known.counts_at and passed > 0:
        known.watched_s += passed
        share = min(passed / min(known.watched_s, MEMORY_S), 1.0)
        known.rate += share * (_grown(known.copied, totals) / passed - known.rate)
    known.copied, known.at, known.is_silent = totals, now, False


def _grown(before: Copied, totals: Copied) -> int:
    """Bytes that came since, of the partitions that were there before."""
    return sum(max(totals[one] - was, 0) for one, was in before.items() if one in totals)
