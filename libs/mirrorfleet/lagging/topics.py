"""Numbers of a topic over its partitions, sans-IO.

A number for which a part is wanting is None: it would pass for a small one. How many are wanting
is told beside it, because a topic's partitions are dealt to several instances, and who adds up
what each of them tells sees no gap. What an operator has paused is not late; what retention takes
of it is told.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mirrorfleet.lagging.partition import PartitionLag

_Topic = tuple[str, str]
"""A link, and a topic of its source."""


def by_topic(lags: Iterable[PartitionLag]) -> dict[_Topic, list[PartitionLag]]:
    """Partitions by link and topic of the source, also those that were not judged yet."""
    topics: dict[_Topic, list[PartitionLag]] = {}
    for lag in lags:
        topics.setdefault((str(lag.entry.link), lag.entry.source_topic), []).append(lag)
    return topics


def longest_s(parts: Sequence[PartitionLag]) -> float | None:
    """Time lag of the latest, seconds; None when any is unknown and none is known to be late."""
    known = _time_lags(parts)
    longest = max(known, default=0)
    return longest / 1000 if longest or len(known) == len(_meant(parts)) else None


def time_unknown(parts: Sequence[PartitionLag]) -> float:
    """How many have no time lag that is known."""
    return float(len(_meant(parts)) - len(_time_lags(parts)))


def offsets(parts: Sequence[PartitionLag]) -> float | None:
    """Offsets to copy of all of them; None when any is unknown."""
    return None if offsets_unknown(parts) else float(sum(_record_lags(parts)))


def offsets_unknown(parts: Sequence[PartitionLag]) -> float:
    """How many have no record lag that is known."""
    return float(len(_meant(parts)) - len(_record_lags(parts)))


def eta_s(parts: Sequence[PartitionLag]) -> float | None:
    """Seconds until all are caught up; None when one never is, or is unknown."""
    meant = _meant(parts)
    found = [lag.eta_ms for lag in meant if lag.eta_ms is not None]
    return max(found, default=0) / 1000 if len(found) == len(meant) else None


def headroom_s(parts: Sequence[PartitionLag]) -> float | None:
    """Least seconds, of those that are known, until retention takes what is not copied."""
    found = [lag.headroom_ms for lag in parts if lag.headroom_ms is not None]
    return min(found) / 1000 if found else None


def worst(told: Mapping[_Topic, Sequence[PartitionLag]], most: int) -> list[_Topic]:
    """All of them, where there are no more than so many; else, in this order, those of which nobody
    knows how late they are, the latest, and those that retention takes first.
    """

    def place(topic: _Topic) -> tuple[float, float]:
        late, room = longest_s(told[topic]), headroom_s(told[topic])
        return (-inf if late is None else -late, inf if room is None else room)

    return [*told] if len(told) <= most else sorted(told, key=place)[:most]


def _meant(parts: Sequence[PartitionLag]) -> list[PartitionLag]:
    """Those that are to be copied."""
    return [lag for lag in parts if lag.entry.is_active]


def _time_lags(parts: Sequence[PartitionLag]) -> list[int]:
    standings = (lag.standing for lag in _meant(parts))
    return [s.time_lag_ms for s in standings if s is not None and s.time_lag_ms is not None]


def _record_lags(parts: Sequence[PartitionLag]) -> list[int]:
    standings = (lag.standing for lag in _meant(parts))
    return [s.lag_records for s in standings if s is not None and s.lag_records is not None]
