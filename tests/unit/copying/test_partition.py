"""What one partition knows, and forgets, when it stands still and goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import A_DROP, Pace, SourceEnds
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.copybatch import Dropped, FaultKind
from tests.unit.copying.making import BIG, entry, fetched, give, partition_of, slot


@pytest.mark.parametrize(
    ("reason", "sent"),
    [(FaultReason.SOURCE_CORRUPT, [1, 1]), (FaultReason.RECORD_TOO_LARGE, [2])],
    ids=["of the source", "of what the target takes"],
)
def test_what_refusals_taught_is_forgotten_only_with_a_fault_that_is_about_it(
    reason: FaultReason, sent: list[int]
) -> None:
    """Else what comes before a corrupt batch would be too large once more, each time."""
    made = slot()
    partition = partition_of(made)
    partition.take(limit=len(BIG) + 1_000)
    made.fault(partition, Fault(reason, SourceOffset(2), "why"), 1.0)

    made.heal(partition)
    give(made, partition, fetched((0, [BIG, BIG])), end=2)

    assert [queued.batch.count for queued in partition.queue] == sent


def test_what_stood_at_a_record_is_over_where_the_source_ends_before_it_by_now() -> None:
    """Nothing would ever come that goes past it: another replica leads, and has less."""
    made = slot()
    partition = partition_of(made)
    fault = Fault(FaultReason.SOURCE_CORRUPT, SourceOffset(0), "why")
    made.fault(partition, fault, 1.0)
    partition.reported = fault
    partition.source = SourceEnds(1, 1, 0)
    stands = partition.has_recovered
    made.heal(partition)
    is_asked_for = partition.has_recovered

    give(made, partition, bytearray(), end=0)

    assert (stands, is_asked_for, partition.has_recovered) == (False, False, True)


def test_a_refused_record_is_known_until_a_commit_is_behind_it() -> None:
    """Longer, and each batch would be looked into for nothing."""
    made = slot()
    partition = partition_of(made)
    assert partition.stop_before(Fault(FaultReason.RECORD_REFUSED, SourceOffset(2), "why"))

    known = []
    for end in (2, 3):
        made.committed([replace(partition.committed, next_source=SourceOffset(end))], 2.0)
        known.append(partition.terms.refused is not None)

    assert known == [True, False]


def test_records_that_policy_drops_take_up_room_until_the_ledger_is_told_of_them() -> None:
    """A stretch without keys brings nothing to send: only this keeps it from being fetched on."""
    made = slot()  # 1 MB a partition
    partition = partition_of(made)
    counts = [100, (1 << 20) // 2 // A_DROP + 1, (1 << 20) // A_DROP + 1]
    seen = []
    for count in counts:
        drops = [Dropped(SourceOffset(n), FaultKind.NULL_KEY) for n in range(count)]
        partition.dropped, partition.walked_to = drops, SourceOffset(count)
        partition.moved_at = 100.0
        is_told_now = partition in made.moved_without_data(100.0, 5.0)
        seen.append((partition in made.wanted(Pace.LIVE, 100.0), is_told_now))

    assert seen == [(True, False), (True, True), (False, True)]
    partition.rewind()
    assert made.wanted(Pace.LIVE, 100.0) == [partition]


@pytest.mark.parametrize(("end", "pace"), [(60, Pace.CATCH_UP), (50, Pace.LIVE), (40, Pace.LIVE)])
def test_where_a_rewound_partition_has_no_backlog_left_the_live_lane_asks_for_it(
    end: int, pace: Pace
) -> None:
    """What catches up is asked for as far as the source was seen, and no further."""
    partition = partition_of(slot(entry(0)))
    partition.source, partition.pace, partition.behind = SourceEnds(end, end, 0), Pace.CATCH_UP, 3
    partition.committed = replace(partition.committed, next_source=SourceOffset(50))

    partition.rewind()

    assert (partition.pace, partition.behind) == (pace, 3 if pace is Pace.CATCH_UP else 0)
    assert partition.source.last_stable == (-1 if end < 50 else end)
