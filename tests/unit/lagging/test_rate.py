"""Rates that decay, and the times that are told by them."""

from __future__ import annotations

from statistics import median

import pytest

from mirrorfleet.lagging.board import ease
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.lagging.rate import Rate
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import entry, said

LIMITS = Limits()
SECOND = 1_000
DAY_MS = 86_400 * SECOND
WEEK_MS = 7 * DAY_MS


def test_a_counter_that_stands_still_for_days_has_no_rate_left() -> None:
    rate = Rate(600.0)
    for second in range(0, 500_000, 60):
        rate.seen(min(second, 400), second * SECOND + 1)

    assert rate.value == 0.0


def test_a_log_start_that_moved_once_says_nothing_days_later() -> None:
    lag = PartitionLag(entry(retention_ms=WEEK_MS))
    for second in range(60, 500_000, 60):
        now_ms = second * SECOND
        lag.end_seen(500 if second == 60 else 1_000, now_ms)
        lag.reported(said(500, end=1_000, log_start=0 if second == 60 else 400), now_ms, now_ms)
        standing = lag.look(now_ms, LIMITS)
        assert lag.headroom_ms is not None, now_ms

    assert standing.time_lag_ms is not None
    assert lag.headroom_ms == WEEK_MS - standing.time_lag_ms


def test_an_idle_partition_that_retention_has_emptied_has_all_of_its_retention_left() -> None:
    lag = PartitionLag(entry(retention_ms=WEEK_MS))
    for second in range(1, 60):
        now_ms = second * SECOND
        lag.end_seen(1_000, now_ms)
        lag.reported(said(1_000, log_start=500 if second < 30 else 1_000), now_ms, now_ms)
        standing = lag.look(now_ms, LIMITS)

    assert standing.verdict is Verdict.IDLE
    assert lag.headroom_ms == WEEK_MS

    lag.end_seen(1_001, 60 * SECOND)
    lag.reported(said(1_000, log_start=1_000), 61 * SECOND, 61 * SECOND)
    assert lag.look(61 * SECOND, LIMITS).lag_records == 1
    assert lag.headroom_ms == 0, "a record waits there, and the log's begin was moving"


def test_a_backlog_that_has_waited_for_hours_has_no_eta() -> None:
    lag, position = PartitionLag(entry()), 0
    for second in range(1, 10_000):
        now_ms, copies = second * SECOND, second <= 100
        position += 5_000 * copies
        lag.end_seen(1_000_000, now_ms)
        state = "catch-up" if copies else "waiting"
        lag.reported(said(position, end=1_000_000, state=state), now_ms, now_ms)
        standing = lag.look(now_ms, LIMITS)
        assert lag.eta_ms is None or standing.verdict is Verdict.CATCHING_UP

    assert standing.verdict is Verdict.CATCHING_UP
    assert lag.eta_ms is None


def test_a_gain_that_is_hardly_one_gives_no_eta() -> None:
    lag = PartitionLag(entry())
    for second in range(1, 300):
        now_ms = second * SECOND
        lag.end_seen(100_000 + second * 100, now_ms)
        faster = 0 if second == 1 else 50
        lag.reported(said(second * 100 + faster, end=200_000), now_ms, now_ms)
        standing = lag.look(now_ms, LIMITS)

    assert standing.lag_records
    assert not standing.verdict.fine
    assert lag.eta_ms is None


def test_the_first_look_of_a_rate_counts_as_one_look() -> None:
    rate = Rate(100.0)
    for second, count in enumerate((0, 1_000, 1_000, 1_000, 1_000)):
        rate.seen(count, second * SECOND + 1)

    assert rate.value == pytest.approx(250, rel=0.02)


def test_backlogs_that_are_copied_in_turns_are_told_a_time_that_is_right() -> None:
    """Twelve of them, 1,000 records a second, for two seconds each; a worker's pieces."""
    lags = [PartitionLag(entry(number)) for number in range(12)]
    left, wrong = [100_000] * 12, []
    for second in range(1, 900):
        now_ms = second * SECOND
        turn = second // 2 % 12
        left[turn] -= 1_000
        for number, lag in enumerate(lags):
            at = 100_000 - left[number]
            lag.end_seen(100_000, now_ms)
            lag.reported(said(at, end=100_000, state="catch-up"), now_ms, now_ms)
            lag.look(now_ms, LIMITS)
        ease(lags)
        etas = [lag.eta_ms for lag in lags]
        if second >= 120:
            told = max(each for each in etas if each is not None) / SECOND
            wrong.append(abs(told / (1_200 - second) - 1))

    assert max(wrong) < 0.25


@pytest.mark.parametrize("stood", ["source away", "faulted"])
def test_how_long_it_stood_before_does_not_make_a_backlog_look_longer(stood: str) -> None:
    """The line is cut for a quarter of an hour, and twelve backlogs are copied in turns then."""
    lags = [PartitionLag(entry(number)) for number in range(12)]
    done, end, wrong = [0] * 12, 0, []
    for second in range(1, 1_300):
        now_ms, cut = second * SECOND, 60 <= second < 960
        end += 100
        turn = second // 2 % 12
        behind = 0 if cut else end - done[turn]
        done[turn] += min(behind, 100 * 12 * 4)
        for number, lag in enumerate(lags):
            if not cut or stood == "faulted":
                lag.end_seen(end, now_ms)
            state = "faulted" if cut and stood == "faulted" else "catch-up"
            lag.reported(said(done[number], end=end, state=state), now_ms, now_ms)
            lag.look(now_ms, LIMITS)
        ease(lags)
        told = [eta for lag in lags if (eta := lag.eta_ms) is not None]
        if 960 + 2 * 24 <= second < 960 + 200:  # after two rounds of turns, with four to go
            wrong.append(abs(max(told) / SECOND / (960 + 300 - second) - 1))

    assert median(wrong) < 0.15
    assert max(wrong) < 0.25


def test_what_others_leave_to_a_backlog_is_in_its_time_within_seconds() -> None:
    """400 records a second of a worker, for all that have a backlog; three of four end at once."""
    lags = [PartitionLag(entry(number)) for number in range(4)]
    left, wrong = [10_000, 10_000, 10_000, 30_000], {}
    for second in range(1, 150):
        now_ms = second * SECOND
        behind = [number for number in range(4) if left[number]]
        for number, lag in enumerate(lags):
            left[number] -= 400 // len(behind) if number in behind else 0
            lag.end_seen(30_000, now_ms)
            lag.reported(said(30_000 - left[number], end=30_000), now_ms, now_ms)
            lag.look(now_ms, LIMITS)
        ease(lags)
        wrong[second] = abs((lags[-1].eta_ms or 0) / SECOND / (150 - second) - 1)

    assert max(wrong[second] for second in range(110, 140)) < 0.25


def test_a_backlog_that_waits_for_a_more_urgent_one_is_told_no_time() -> None:
    lag = PartitionLag(entry())
    for second in range(1, 30):
        now_ms = second * SECOND
        lag.end_seen(100_000, now_ms)
        state = "waiting" if second > 20 else "catch-up"
        lag.reported(said(second * 10, end=100_000, state=state), now_ms, now_ms)
        lag.look(now_ms, LIMITS)
        assert (lag.eta_ms is None) is (state == "waiting" or second < 2)
