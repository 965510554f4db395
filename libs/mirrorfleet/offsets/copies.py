"""The copied partitions of a link by name, and questions to the offset map in those names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.index import Found, OffsetIndex
from mirrorfleet.offsets.lineage import Lineage, Losses, lineage
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.incarnations import LossCause
from mirrorfleet.records.offset_sync import OffsetSync


@dataclass(frozen=True, slots=True)
class Answer:
    """`asked` at `partition` is `offset` at `other`, each the next record to read there.

    `copied_to` is the source offset up to which the map knows the copy. `unchecked` is why nobody
    knows whether the clusters have the topics still that the map is about.
    """

    entry: CatalogPartition
    partition: TopicPartition
    asked: int
    other: TopicPartition
    offset: int
    found: Found
    copied_to: SourceOffset
    unchecked: str = ""

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        found: dict[str, object] = {
            "link": str(self.entry.link),
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.asked,
            "other_topic": self.other.topic,
            "other_offset": self.offset,
            "found": str(self.found),
            "copied_to": self.copied_to,
        }
        return found | {"unchecked": self.unchecked} if self.unchecked else found


_NO_LOSSES: Final[Losses] = {}


class Copies:
    """Partitions that are copied now, of one link or of several that share no name."""

    def __init__(
        self,
        entries: Iterable[CatalogPartition],
        index: OffsetIndex,
        losses: Losses = _NO_LOSSES,
    ) -> None:
        """`losses` are those of former incarnations; unknown ones make answers lower."""
        self._index = index
        self._losses = losses
        self._by_source: dict[TopicPartition, CatalogPartition] = {}
        self._by_target: dict[TopicPartition, CatalogPartition] = {}
        for entry in entries:
            if entry.state is not CatalogState.REMOVED:
                known = self._by_source.get(entry.source)
                if known is None or known.identity.incarnation <= entry.identity.incarnation:
                    self._by_source[entry.source] = entry
                    self._by_target[entry.target] = entry

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

    def is_new(self, partition: TopicPartition) -> bool:
        """Whether nothing of a target partition is in the map yet, nor was ever lost there."""
        entry = self._by_target.get(partition)
        known = None if entry is None else self._index.of(entry.identity)
        return entry is not None and entry.loss is None and (known is None or known.first is None)

    def parted(self, entry: CatalogPartition) -> list[tuple[SourceOffset, TargetOffset]]:
        """From where on the source once had lost its records of a partition, the lowest first, and
        where the copy of what came instead began; 0 where nobody knows.
        """
        found: list[tuple[SourceOffset, TargetOffset]] = []
        for number in range(entry.identity.incarnation + 1):
            identity = replace(entry.identity, incarnation=number)
            loss = entry.loss if identity == entry.identity else self._losses.get(identity)
            if loss is None or loss.first is None or loss.cause != LossCause.SOURCE_TRUNCATED:
                continue
            known = self._index.of(identity)
            first = None if known is None else known.first
            began = TargetOffset(0) if first is None else first[1]
            found.append((SourceOffset(loss.first), began))
        return sorted(found)

    def line(self, entry: CatalogPartition) -> Lineage | None:
        """The map of one partition, for who asks it about every record; None while it has none."""
        return lineage(entry, self._losses, self._index)

    def to_target(self, partition: TopicPartition, offset: int) -> Answer | None:
        """Source to target; None when it is not copied, or nothing of it yet."""
        entry = self._by_source.get(partition)
        line = None if entry is None else self.line(entry)
        found = None if line is None else line.to_target(SourceOffset(offset))
        if entry is None or line is None or found is None:
            return None
        other, copied_to = entry.target, line.now.source_end
        return Answer(entry, partition, offset, other, found.offset, found.found, copied_to)

    def to_source(self, partition: TopicPartition, offset: int) -> Answer | None:
        """Target to source, by the same rule."""
        entry = self._by_target.get(partition)
        line = None if entry is None else self.line(entry)
        found = None if line is None else line.to_source(TargetOffset(offset))
        if entry is None or line is None or found is None:
            return None
        other, copied_to = entry.source, line.now.source_end
        return Answer(entry, partition, offset, other, found.offset, found.found, copied_to)

    def cut(self, partition: TopicPartition) -> TargetOffset | None:
        """From where on a target partition once lost what it had; None when it never did."""
        entry = self._by_target.get(partition)
        line = None if entry is None else self.line(entry)
        return None if line is None else line.cut

    def syncs(self) -> Iterator[OffsetSync]:
        """The last copied record of each partition, as MM2 writes it down."""
        for entry in self:
            known = self._index.of(entry.identity)
            last = None if known is None else known.last
            if last is not None:
                yield OffsetSync(entry.source, *last)
