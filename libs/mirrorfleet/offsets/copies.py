"""The copied partitions of a link by name, and questions to the offset map in those names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mirrorfleet.core.ids import Link, SlotNumber, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.index import Found, OffsetIndex, PartitionMap, Translated
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.offset_sync import OffsetSync


@dataclass(frozen=True, slots=True)
class Answer:
    """`asked` at `partition` is `offset` at `other`, each the next record to read there.

    `copied_to` is the source offset up to which the map knows the copy.
    """

    entry: CatalogPartition
    partition: TopicPartition
    asked: int
    other: TopicPartition
    offset: int
    found: Found
    copied_to: SourceOffset

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        return {
            "link": str(self.entry.link),
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.asked,
            "other_topic": self.other.topic,
            "other_offset": self.offset,
            "found": str(self.found),
            "copied_to": self.copied_to,
        }


_SAME_TOPICS: Final = frozenset({"source-truncated", "target-truncated", "rewound"})
"""Causes after which both topics are still those of the incarnation before."""


class Lineage:
    """Two maps of the same two topics: what the former one says holds below `until` only.

    source   0 ........ until ........          until = where the histories part
    map      former     now
    """

    def __init__(self, now: PartitionMap, former: PartitionMap | None, until: SourceOffset) -> None:
        self._now = now
        self._former = former
        self._until = until

    def to_target(self, offset: SourceOffset) -> Translated[TargetOffset] | None:
        """As `PartitionMap.to_target`."""
        if self._former is not None and offset < self._until:
            found = self._former.to_target(offset)
            if found is not None and found.found is not Found.END:
                back = self._former.to_source(found.offset)
                if back is not None and back.offset < self._until:
                    return found
        return self._now.to_target(offset)

    def to_source(self, offset: TargetOffset) -> Translated[SourceOffset] | None:
        """As `PartitionMap.to_source`; what only the former history had leads to its end."""
        found = self._now.to_source(offset)
        if found is not None and found.found is not Found.BEFORE:
            return found
        back = None if self._former is None else self._former.to_source(offset)
        if back is None or back.found is Found.END or back.offset >= self._until:
            return found
        return back


class Copies:
    """Partitions that are copied now, of one link or of several that share no name."""

    def __init__(self, entries: Iterable[CatalogPartition], index: OffsetIndex) -> None:
        self._index = index
        self._by_source: dict[TopicPartition, CatalogPartition] = {}
        self._by_target: dict[TopicPartition, CatalogPartition] = {}
        for entry in entries:
            if entry.state is not CatalogState.REMOVED:
                known = self._by_source.get(source_of(entry))
                if known is None or known.identity.incarnation <= entry.identity.incarnation:
                    self._by_source[source_of(entry)] = entry
                    self._by_target[target_of(entry)] = entry

    def __len__(self) -> int:
        return len(self._by_source)

    def __iter__(self) -> Iterator[CatalogPartition]:
        return iter(self._by_source.values())

    @property
    def slots(self) -> frozenset[SlotNumber]:
        """Slots that copy them."""
        return frozenset(entry.slot for entry in self)

    def by_source(self, partition: TopicPartition) -> CatalogPartition | None:
        """The entry that copies a source partition."""
        return self._by_source.get(partition)

    def by_target(self, partition: TopicPartition) -> CatalogPartition | None:
        """The entry whose copy a target partition is."""
        return self._by_target.get(partition)

    def to_target(self, partition: TopicPartition, offset: int) -> Answer | None:
        """Source to target; None when it is not copied, or nothing of it yet."""
        entry = self._by_source.get(partition)
        known = None if entry is None else self._index.of(entry.identity)
        if entry is None or known is None:
            return None
        found = self._before(entry, known).to_target(SourceOffset(offset))
        if found is None:
            return None
        other = target_of(entry)
        return Answer(entry, partition, offset, other, found.offset, found.found, known.source_end)

    def to_source(self, partition: TopicPartition, offset: int) -> Answer | None:
        """Target to source, by the same rule."""
        entry = self._by_target.get(partition)
        known = None if entry is None else self._index.of(entry.identity)
        if entry is None or known is None:
            return None
        found = self._before(entry, known).to_source(TargetOffset(offset))
        if found is None:
            return None
        other = source_of(entry)
        return Answer(entry, partition, offset, other, found.offset, found.found, known.source_end)

    def _before(self, entry: CatalogPartition, known: PartitionMap) -> Lineage:
        """The map together with that of the incarnation before, where the topics are the same."""
        loss, identity = entry.loss, entry.identity
        if loss is None or loss.first is None or loss.cause not in _SAME_TOPICS:
            return Lineage(known, None, SourceOffset(0))
        former = self._index.of(replace(identity, incarnation=identity.incarnation - 1))
        return Lineage(known, former, SourceOffset(loss.first))

    def syncs(self) -> Iterator[OffsetSync]:
        """The last copied record of each partition, as MM2 writes it down."""
        for entry in self:
            known = self._index.of(entry.identity)
            last = None if known is None else known.last
            if last is not None:
                yield OffsetSync(source_of(entry), *last)


def source_of(entry: CatalogPartition) -> TopicPartition:
    """The source partition by name."""
    return TopicPartition(entry.source_topic, entry.identity.partition)


def target_of(entry: CatalogPartition) -> TopicPartition:
    """The target partition by name."""
    return TopicPartition(entry.target_topic, entry.identity.partition)


def of_link(entries: Iterable[CatalogPartition], link: Link) -> Iterator[CatalogPartition]:
    """The entries of one link."""
    return (entry for entry in entries if entry.link == link)
