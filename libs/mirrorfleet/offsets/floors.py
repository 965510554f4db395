"""Below which offsets nobody can ask about a copy any more, by what two looks say. Sans-IO.

    both its topics are there        below where both logs begin
    one of them is gone              below where the other one begins; that side counts no more
    it cannot be told                nothing is forgotten

What translation still uses are partitions that are copied now, and removed ones of the same two
topics: for these a topic that is gone is only one that cannot be asked. Of any other removed one
nobody asks again, because no topic ever gets its id back; it is believed to be gone when two looks
in a row say so, because a broker may lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from mirrorfleet.core.ids import ClusterId, PartitionIdentity, TopicId
from mirrorfleet.records.catalog import CatalogPartition, CatalogState

_Copied = tuple[ClusterId, TopicId, int, TopicId]


class Seen(Enum):
    """A topic with its id, at one look."""

    THERE = auto()
    GONE = auto()
    """Nothing has its name, or another topic has."""
    UNSURE = auto()


class Sides(NamedTuple):
    """The topics of a copy."""

    source: Seen
    target: Seen


class LostTopics:
    """Which copies have lost a topic, look after look."""

    def __init__(self) -> None:
        self._before: Mapping[PartitionIdentity, Sides] = {}

    def believed(
        self, entries: Iterable[CatalogPartition], seen: Mapping[PartitionIdentity, Sides]
    ) -> dict[PartitionIdentity, Sides]:
        """Partitions of which both sides are known now; of any other nothing may be forgotten.

        `entries` are all of a source, those that are copied now and those that were removed.
        """
        ended = _ended(entries)
        lost = {each: sides for each, sides in seen.items() if each in ended and Seen.GONE in sides}
        again = {each for each, sides in lost.items() if self._before.get(each) == sides}
        self._before = lost
        return {
            each: sides
            for each, sides in seen.items()
            if Seen.UNSURE not in sides and (Seen.GONE not in sides or each in again)
        }


def _ended(entries: Iterable[CatalogPartition]) -> frozenset[PartitionIdentity]:
    """Removed partitions whose topics no partition of now has: no lineage leads to them."""
    now: set[_Copied] = set()
    removed: list[PartitionIdentity] = []
    for entry in entries:
        if entry.state is CatalogState.REMOVED:
            removed.append(entry.identity)
        else:
            now.add(_copied(entry.identity))
    return frozenset(identity for identity in removed if _copied(identity) not in now)


def _copied(identity: PartitionIdentity) -> _Copied:
    """What all incarnations of a lineage have in common."""
    return (
        identity.source_cluster,
        identity.source_topic_id,
        identity.partition,
        identity.target_topic_id,
    )
