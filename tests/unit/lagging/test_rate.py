"""Rates that decay, and the times that are told by them."""

from __future__ import annotations

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
