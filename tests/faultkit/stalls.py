"""How long each copied partition stood still, from the positions that its slot committed.

A position carries the time of its commit, so under steady load the gap between two commits of a
partition is its stall, measured after the fact. Compaction must not have come by: a fresh fleet,
minutes long.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.records import positions
from mirrorfleet.records.positions import Position
from tests.faultkit.control_topics import read_to_end

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.core.ids import PartitionIdentity, TopicId


class Stall(NamedTuple):
    """The longest gap between two commits of a partition, in seconds, and when it began (ms)."""

    seconds: float
    since_ms: int
    partition: int


class Commits(NamedTuple):
    """Of each partition: times of its commits in ms since 1970, in order, and its last slot.

    `copied`: of those with records in them. To pass what the source aborted takes a commit, too,
    and it may come seconds later, with nothing to copy.
    """

    times: dict[PartitionIdentity, list[int]]
    slots: dict[PartitionIdentity, int]
    copied: dict[PartitionIdentity, list[int]]

    def of(self, source_topics: Collection[TopicId]) -> dict[PartitionIdentity, list[int]]:
        """Times of these topics: one that was deleted stands still, and nobody waits for it."""
        return {
            at: times for at, times in self.times.items() if at.source_topic_id in source_topics
        }

    def in_slots(self, source_topic: TopicId) -> set[int]:
        """The slots that copy a topic."""
        return {slot for at, slot in self.slots.items() if at.source_topic_id == source_topic}

    def without(self, source_topic: TopicId) -> dict[int, dict[PartitionIdentity, list[int]]]:
        """Slot -> times of its partitions, those of one topic left out."""
        found: dict[int, dict[PartitionIdentity, list[int]]] = {}
        for at, times in self.times.items():
            if at.source_topic_id != source_topic:
                found.setdefault(self.slots[at], {})[at] = times
        return found


def commits(target: ClusterSettings, fleet: str) -> Commits:
    """Every commit that moved a partition of a fleet."""
    records = asyncio.run(read_to_end(target, f"__mirrorfleet.{fleet}.positions"))
    return commits_in(
        (record.partition, record.timestamp, positions.decode(record.key, record.value))
        for record in records
    )


def commits_in(told: Iterable[tuple[int, int, positions.Entry]]) -> Commits:
    """Of slots, times and what was written: a snapshot repeats positions, and is no progress."""
    found = Commits({}, {}, {})
    at: dict[PartitionIdentity, Position] = {}
    for slot, time_ms, entry in told:
        if not isinstance(entry, Position):
            continue
        before = at.get(entry.identity)
        if before is not None and before.next_source == entry.next_source:
            continue
        at[entry.identity] = entry
        found.times.setdefault(entry.identity, []).append(time_ms)
        found.slots[entry.identity] = slot
        if entry.records > (before.records if before else 0):
            found.copied.setdefault(entry.identity, []).append(time_ms)
    return found


def stalls(
    found: Mapping[PartitionIdentity, Sequence[int]],
    begin: int,
    end: int,
    *,
    to_commit: Mapping[PartitionIdentity, Sequence[int]] | None = None,
) -> list[Stall]:
    """The longest stall of each partition within a span of time (ms), the longest first.

    What still stands at the end counts to there, or to the first of the commits `to_commit` behind
    it: where no other span follows, nothing else would tell of the rest.
    """
    later = to_commit or {}
    return sorted(
        _longest(identity, times, begin, end, later.get(identity, ()))
        for identity, times in found.items()
    )[::-1]


def slot_stall_s(times: Iterable[Sequence[int]], begin: int, end: int) -> float:
    """The longest time (s) in which none of a slot's partitions was committed."""
    inside = sorted(time for each in times for time in each if begin <= time <= end)
    return max(until - since for since, until in pairwise([begin, *inside, end])) / 1000


def _longest(
    identity: PartitionIdentity,
    times: Iterable[int],
    begin: int,
    end: int,
    later: Iterable[int],
) -> Stall:
    until_ms = next((time for time in later if time > end), end)
    edges = [begin, *(time for time in times if begin <= time <= end), until_ms]
    since, until = max(pairwise(edges), key=lambda gap: gap[1] - gap[0])
    return Stall((until - since) / 1000, since, identity.partition)
