"""The longest time that a partition stood still, from the times of its commits."""

from __future__ import annotations

import pytest

from tests.faultkit.stalls import Stall, stalls
from tests.faults.regions.trend import slope
from tests.unit.copying.making import identity


def test_a_stall_is_the_longest_gap_within_the_span_edges_included() -> None:
    found = {identity(0): [900, 1_100, 1_500, 4_000], identity(1): [1_900]}
    assert stalls(found, 1_000, 2_000) == [Stall(0.9, 1_000, 1), Stall(0.5, 1_500, 0)]


def test_a_partition_that_never_committed_stood_still_all_the_time() -> None:
    assert stalls({identity(2): []}, 1_000, 3_000) == [Stall(2.0, 1_000, 2)]


def test_a_slope_is_told_by_the_hour() -> None:
    assert slope([100.0, 101.0, 102.0], [0.0, 60.0, 120.0]) == pytest.approx(60.0)
    assert slope([5.0], [1.0]) == 0.0
