"""What a fleet copies just now, topic by topic: two looks at its progress, and what lies between.

Rates are by the owners' own counters and clocks: a partition whose owner changed between the looks
counts from the later owner's begin, and is left out where that would make it negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.views.format import plural

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.overview import Reported

COLUMNS: Final = ("topic", "records_s", "mb_s", "waiting", "partitions", "standing", "workers")


@dataclass(slots=True)
class Busy:
    """A topic between two looks. `waiting` is None where one of its partitions does not tell."""

    topic: str
    records_s: float = 0.0
    bytes_s: float = 0.0
    waiting: int | None = 0
    partitions: int = 0
    standing: int = 0
    """Partitions with a fault."""
    workers: frozenset[str] = frozenset()

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        return {
            "topic": self.topic,
            "records_s": round(self.records_s),
            "mb_s": round(self.bytes_s / 1e6, 1),
            "waiting": self.waiting,
            "partitions": self.partitions,
            "standing": self.standing,
            "workers": len(self.workers),
        }


Look = Mapping["PartitionIdentity", "Reported"]


def busiest(before: Look, now: Look) -> list[Busy]:
    """Topics, the one with the most waiting records first, then by rate; the unknown come first."""
    found: dict[str, Busy] = {}
    for identity, seen in now.items():
        topic = seen.partition.source_topic
        one = found.setdefault(topic, Busy(topic))
        one.partitions += 1
        one.standing += bool(seen.partition.fault)
        one.workers |= {seen.snapshot.owner}
        lag = seen.partition.lag_records
        one.waiting = None if lag is None or one.waiting is None else one.waiting + lag
        records_s, bytes_s = _rates(before.get(identity), seen)
        one.records_s += records_s
        one.bytes_s += bytes_s
    return sorted(found.values(), key=_rank)


def _rank(one: Busy) -> tuple[bool, int, float, str]:
    return one.waiting is not None, -(one.waiting or 0), -one.records_s, one.topic


def _rates(before: Reported | None, now: Reported) -> tuple[float, float]:
    """Records and bytes a second."""
    if before is None or now.snapshot.time_ms <= before.snapshot.time_ms:
        return 0.0, 0.0
    seconds = (now.snapshot.time_ms - before.snapshot.time_ms) / 1000
    records = now.partition.records - before.partition.records
    copied = now.partition.bytes - before.partition.bytes
    return max(0.0, records / seconds), max(0.0, copied / seconds)


def summary(found: Sequence[Busy]) -> str:
    """All of it in a line."""
    records, copied = sum(one.records_s for one in found), sum(one.bytes_s for one in found)
    workers = frozenset[str]().union(*(one.workers for one in found))
    lags = [one.waiting for one in found]
    waiting = "some" if None in lags else f"{sum(each or 0 for each in lags):,}"
    standing = sum(one.standing for one in found)
    said = f"{records:,.0f} records/s, {copied / 1e6:,.1f} MB/s by {plural(len(workers), 'worker')}"
    return f"{said}; {waiting} records wait; with a fault: {plural(standing, 'partition')}"
