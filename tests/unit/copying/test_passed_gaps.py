"""A partition that goes on behind all that was seen of its source."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.copying.partition import Pace, SourceEnds
from mirrorfleet.core.ids import SourceOffset
from tests.unit.copying.making import partition_of, slot


def test_behind_a_gap_that_passes_all_that_was_seen_something_is_asked_for() -> None:
    """By the session of live partitions: there is no piece of what nobody has seen."""
    made = slot()
    partition = partition_of(made)
    partition.pace, partition.source = Pace.CATCH_UP, SourceEnds(1_000, 1_000, 0)
    lost = Span(SourceOffset(0), SourceOffset(5_000))
    made.fault(partition, Fault(FaultReason.RETENTION_OVERTOOK, SourceOffset(0), "gone", lost), 1.0)
    made.committed([replace(partition.committed, next_source=SourceOffset(5_000))], 2.0)
    made.heal(partition)

    assert made.wanted(Pace.LIVE, 3.0) == [partition]
    assert made.wanted(Pace.CATCH_UP, 3.0) == []
    assert partition.source == SourceEnds()
