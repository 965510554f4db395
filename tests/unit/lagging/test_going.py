"""Where a lag goes: what shrinks is caught up with, and nothing is said after too few looks."""

from __future__ import annotations

from mirrorfleet.lagging.going import Going
from mirrorfleet.lagging.verdict import Trend

SECOND = 1_000


def looks(going: Going, first_s: int, *time_lags: int) -> None:
    """One in two seconds, with so many seconds of lag."""
    for number, time_lag in enumerate(time_lags):
        going.looked((first_s + 2 * number) * SECOND, 100, time_lag * SECOND)


def test_a_time_lag_that_becomes_less_by_a_twentieth_of_the_time_shrinks() -> None:
    going = Going()
    looks(going, 1, 30, 30, 30, 30, 30)
    assert going.where_to(100, 29 * SECOND) is Trend.UNKNOWN

    looks(going, 11, 30)
    assert going.where_to(100, 30 * SECOND - 500) is Trend.SHRINKS
    assert going.where_to(100, 30 * SECOND - 499) is Trend.LASTS


def test_without_a_time_records_tell() -> None:
    going = Going()
    for second in range(1, 13, 2):
        going.looked(second * SECOND, 100, None)

    assert going.where_to(99, None) is Trend.SHRINKS
    assert going.where_to(100, None) is Trend.LASTS
    assert going.where_to(None, None) is Trend.LASTS


def test_what_was_looked_at_before_nothing_waited_does_not_count() -> None:
    going = Going()
    looks(going, 1, *range(60, 48, -2))
    going.looked(13 * SECOND, 0, 0)
    looks(going, 15, 1, 2, 3, 4, 5)
    assert going.where_to(100, 6 * SECOND) is Trend.UNKNOWN


def test_a_lag_from_before_the_clock_was_set_back_is_no_measure_of_where_it_goes() -> None:
    going = Going()
    looks(going, 3_600, *range(90, 102, 2))
    looks(going, 1, 5, 7, 9, 11, 13, 15, 17)

    assert going.where_to(100, 19 * SECOND) is Trend.LASTS
