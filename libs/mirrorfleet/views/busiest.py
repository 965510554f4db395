"""What a fleet copies just now, topic by topic: two looks at its progress, and what lies between.

Rates are by the owners' own counters and clocks: a partition whose owner changed between the looks
counts from the later owner's begin, and is left out where that would make it negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.views.format import plural

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.progress import PartitionProgress, Progress

COLUMNS: Final = ("topic", "records_s", "mb_s", "waiting", "partitions", "standing", "workers")


@dataclass(frozen=True, slots=True)
class Counted:
    """A partition at one look, with who told of it and when."""

    told: PartitionProgress
    owner: str
    time_ms: int


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


Look = Mapping["PartitionIdentity", Counted]


def look_at(snapshots: Iterable[Progress]) -> dict[PartitionIdentity, Counted]:
    """The newest word on each partition."""
    found: dict[PartitionIdentity, Counted] = {}
    for snapshot in sorted(snapshots, key=lambda one: one.time_ms):
        for told in snapshot.partitions:
            found[told.identity] = Counted(told, snapshot.owner, snapshot.time_ms)
    return found


def busiest(before: Look, now: Look) -> list[Busy]:
    """Topics, the one with the most waiting records first, then by rate; the unknown come first."""
    found: dict[str, Busy] = {}
    for identity, counted in now.items():
        topic = counted.told.source_topic
        one = found.setdefault(topic, Busy(topic))
        one.partitions += 1
        one.standing += bool(counted.told.fault)
        one.workers |= {counted.owner}
        lag = counted.told.lag_records
        one.waiting = None if lag is None or one.waiting is None else one.waiting + lag
        records_s, bytes_s = _rates(before.get(identity), counted)
        one.records_s += records_s
        one.bytes_s += bytes_s
    return sorted(found.values(), key=_rank)


def _rank(one: Busy) -> tuple[bool, int, float, str]:
    return one.waiting is not None, -(one.waiting or 0), -one.records_s, one.topic


def _rates(before: Counted | None, now: Counted) -> tuple[float, float]:
    """Records and bytes a second."""
    seconds = 0.0 if before is None else (now.time_ms - before.time_ms) / 1000
    if before is None or seconds <= 0:
        return 0.0, 0.0
    records = now.told.records - before.told.records
    copied = now.told.bytes - before.told.bytes
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
