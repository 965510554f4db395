"""One partition over all its incarnations: which map answers for an offset. Sans-IO.

    source   0 ...... f1 ...... f2 ......       f: where a history and the one before part
    target   0 ...... t1 ...... t2 ......       t: the first record of an incarnation
    map      [ 0 )    [   1   ) [   now         what is good in each

A former map is good below every later f: from there on its records are of another history. It is
good below every later t, too: where a later incarnation begins, the target had lost the rest. So
the good parts follow one another on both sides, and the oldest that reaches an offset answers.

What is not known is answered too low, never too high: a group that reads twice loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import Found, OffsetIndex, PartitionMap, Translated
from mirrorfleet.records.catalog import CatalogLoss, CatalogPartition
from mirrorfleet.records.incarnations import LossCause

Losses = Mapping[PartitionIdentity, CatalogLoss]
"""Why there is an incarnation, for all of them, removed ones too."""

_SAME_TOPICS: Final = frozenset(
    {LossCause.SOURCE_TRUNCATED, LossCause.TARGET_TRUNCATED, LossCause.REWOUND}
)
"""Causes after which both topics are still those of the incarnation before."""


class Stretch(NamedTuple):
    """What is good of a former incarnation: its records below both ends.

    `known` is None where nobody knows its records any more.
    """

    known: PartitionMap | None
    source_end: SourceOffset
    target_end: TargetOffset


class Lineage:
    """The map of now, and what is good of those before, the oldest first.

    `cut`: from there on the target once lost what it had, all of it when its topic was made again;
    None when it never did.
    """

    def __init__(
        self, now: PartitionMap, former: Sequence[Stretch], cut: TargetOffset | None
    ) -> None:
        self.now = now
        self.cut = cut
        self._former = former

    def to_target(self, offset: SourceOffset) -> Translated[TargetOffset] | None:
        """As `PartitionMap.to_target`."""
        low = TargetOffset(0)
        for known, source_end, target_end in self._former:
            if offset < source_end:
                return Translated(low, Found.BEFORE) if known is None else known.to_target(offset)
            low = low if known is None else target_end
        return self.now.to_target(offset)

    def to_source(self, offset: TargetOffset) -> Translated[SourceOffset] | None:
        """As `PartitionMap.to_source`; what only a former history had leads to its end."""
        low = SourceOffset(0)
        for known, source_end, target_end in self._former:
            if offset < target_end:
                return Translated(low, Found.BEFORE) if known is None else known.to_source(offset)
            low = low if known is None else source_end
        return self.now.to_source(offset)


def lineage(entry: CatalogPartition, losses: Losses, index: OffsetIndex) -> Lineage | None:
    """The lineage of a partition that is copied now; None as long as nothing of it was copied."""
    now = index.of(entry.identity)
    first = None if now is None else now.first
    if now is None or first is None:
        return None  # where on the target it begins is not known, nor what is good below
    former: list[Stretch] = []
    identity, begins = entry.identity, _parts_at(entry.loss)
    source, target = first
    cut = _cut(entry.loss, target)
    while begins is not None:
        source = min(source, begins)
        identity = replace(identity, incarnation=identity.incarnation - 1)
        loss, known = losses.get(identity), index.of(identity)
        begins = _parts_at(loss)
        if known is not None:
            end = known.end_below(source, target)
            if end is not None:
                former.append(Stretch(known, *end))
            if known.first is not None:
                source, target = min(source, known.first[0]), min(target, known.first[1])
        earlier = _cut(loss, target)
        cut = cut if earlier is None else earlier
        if known is None and (begins is None or begins < source):
            former.append(Stretch(None, source, target))
            if loss is None or earlier is not None:
                break  # nor is known how much of those before the target still had
        if loss is None and identity.incarnation > 0:
            former.append(Stretch(None, source, target))
    return Lineage(now, former[::-1], cut)


def _cut(loss: CatalogLoss | None, begin: TargetOffset) -> TargetOffset | None:
    """From where on the target had lost what it had, when its next record came to `begin`."""
    if loss is not None and loss.cause == LossCause.TARGET_RECREATED:
        return TargetOffset(0)
    return begin if loss is not None and loss.cause == LossCause.TARGET_TRUNCATED else None


def _parts_at(loss: CatalogLoss | None) -> SourceOffset | None:
    """Where the history parts from the one before; None when that was of other topics."""
    if loss is None or loss.first is None or loss.cause not in _SAME_TOPICS:
        return None
    return SourceOffset(loss.first)
