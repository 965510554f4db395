"""The longest time that a partition stood still, from the times of its commits."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.positions import Entry
from tests.faultkit.stalls import Commits, Stall, commits_in, slot_stall_s, stalls
from tests.faults.regions.trend import slope
from tests.unit.copying.making import identity


def test_a_stall_is_the_longest_gap_within_the_span_edges_included() -> None:
    found = {identity(0): [900, 1_100, 1_500, 4_000], identity(1): [1_900]}
    assert stalls(found, 1_000, 2_000) == [Stall(0.9, 1_000, 1), Stall(0.5, 1_500, 0)]


def test_what_stands_at_the_end_of_the_last_span_counts_to_the_commit_that_ends_it() -> None:
    stood, went = {identity(0): [1_100, 4_000, 9_000]}, {identity(0): [1_900]}
    assert stalls(stood, 1_000, 2_000, to_commit=stood) == [Stall(2.9, 1_100, 0)]
    assert stalls(went, 1_000, 2_000, to_commit=went) == [Stall(0.9, 1_000, 0)]
    assert stalls(stood, 1_000, 2_000, to_commit={}) == [Stall(0.9, 1_100, 0)]


def test_a_partition_that_never_committed_stood_still_all_the_time() -> None:
    assert stalls({identity(2): []}, 1_000, 3_000) == [Stall(2.0, 1_000, 2)]


def test_a_slot_stands_still_while_none_of_its_partitions_is_committed() -> None:
    assert slot_stall_s([[900, 1_100, 1_900], [1_500, 4_000]], 1_000, 2_000) == 0.4
    assert slot_stall_s([], 1_000, 3_000) == 2.0


def test_a_standstill_is_the_longest_stretch_inside_of_a_span_and_no_more() -> None:
    written = [[500, 1_000, 1_100, 3_600, 3_700, 9_000]]
    assert slot_stall_s(written, 1_000, 4_000) == 2.5
    assert slot_stall_s(written, 2_000, 3_000) == 1.0, "what was there before has no say"
    assert slot_stall_s(written, 3_650, 3_750) == 0.05
    assert slot_stall_s([], 0, 0) == 0.0


def test_the_commits_of_a_slot_without_those_of_a_topic() -> None:
    one, other = identity(0), identity(1)
    victim = replace(identity(2), source_topic_id=UUID(int=99))
    found = Commits({one: [1], other: [2], victim: [3]}, {one: 4, other: 5, victim: 5}, {})
    assert found.without(UUID(int=99)) == {4: {one: [1]}, 5: {other: [2]}}
    assert found.in_slots(UUID(int=99)) == {5}
    assert found.of({UUID(int=99)}) == {victim: [3]}


def test_positions_that_a_snapshot_repeats_are_no_progress() -> None:
    """A new owner repeats all of them with its first commit, also of what does not move yet."""
    a, b = (start_position(identity(number), SourceOffset(5), 0) for number in (0, 1))
    told: list[tuple[int, int, Entry]] = [
        (4, 1_000, a),
        (4, 1_000, b),
        (4, 6_000, replace(a, next_source=SourceOffset(9))),
        (4, 6_000, b),
        (4, 14_000, replace(b, next_source=SourceOffset(7))),
    ]

    found = commits_in(told)

    assert found.times == {a.identity: [1_000, 6_000], b.identity: [1_000, 14_000]}
    assert found.slots == {a.identity: 4, b.identity: 4}


def test_a_position_that_only_passes_what_was_aborted_copies_nothing() -> None:
    """It moves seconds after the load has ended: a stall that counted to there would be false."""
    a = start_position(identity(0), SourceOffset(5), 0)
    told: list[tuple[int, int, Entry]] = [
        (4, 1_000, replace(a, next_source=SourceOffset(9), records=4)),
        (4, 6_000, replace(a, next_source=SourceOffset(12), records=4)),
        (4, 8_000, replace(a, next_source=SourceOffset(13), records=5)),
    ]

    found = commits_in(told)

    assert found.times == {a.identity: [1_000, 6_000, 8_000]}
    assert found.copied == {a.identity: [1_000, 8_000]}


def test_a_slope_is_told_by_the_hour() -> None:
    assert slope([100.0, 101.0, 102.0], [0.0, 60.0, 120.0]) == pytest.approx(60.0)
    assert slope([5.0], [1.0]) == 0.0
