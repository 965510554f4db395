"""Topics between two looks: rates, what waits, and the order that puts trouble first."""

from __future__ import annotations

import pytest

from mirrorfleet.records.overview import newest
from mirrorfleet.views.busiest import Busy, busiest, summary
from tests.unit.views.making import NOW, entry, report, snapshot

ONE, TWO, OTHER = entry(0), entry(1), entry(0, topic="carts")
BEFORE = newest([snapshot(report(ONE), report(TWO), time_ms=NOW - 2_000)])


def test_rates_are_counters_over_the_owners_time() -> None:
    now = newest(
        [
            snapshot(report(ONE, records=1_095, bytes=2_009_500), time_ms=NOW),
            snapshot(report(TWO, records=295), slot=4, owner="worker-2", time_ms=NOW - 1_000),
        ]
    )

    (orders,) = busiest(BEFORE, now)

    assert (orders.records_s, orders.bytes_s) == (700.0, 1_000_000.0)
    assert orders.row() == {
        "topic": "orders",
        "records_s": 700,
        "mb_s": 1.0,
        "waiting": 20,
        "partitions": 2,
        "standing": 0,
        "workers": 2,
    }


@pytest.mark.parametrize(
    ("records", "time_ms"),
    [(1_000, NOW - 2_000), (1_000, NOW - 3_000), (10, NOW)],
    ids=["the same report", "an older one", "a counter that began anew"],
)
def test_what_tells_no_rate_has_none(records: int, time_ms: int) -> None:
    (orders,) = busiest(BEFORE, newest([snapshot(report(ONE, records=records), time_ms=time_ms)]))

    assert (orders.records_s, orders.bytes_s) == (0.0, 0.0)


def test_what_was_not_seen_before_has_no_rate_yet() -> None:
    (carts,) = busiest(BEFORE, newest([snapshot(report(OTHER, records=10**6), time_ms=NOW)]))

    assert (carts.records_s, carts.partitions) == (0.0, 1)


def test_the_newest_word_on_a_partition_counts() -> None:
    old = snapshot(report(ONE, next_source=1), time_ms=NOW - 9)
    new = snapshot(report(ONE, next_source=109), owner="heir", time_ms=NOW)

    (orders,) = busiest({}, newest([new, old]))

    assert (orders.waiting, orders.workers) == (1, frozenset({"heir"}))


def test_what_nobody_knows_comes_first_then_what_waits_then_what_is_busy() -> None:
    made = [
        snapshot(
            report(entry(0, topic="idle"), next_source=110),
            report(entry(0, topic="late"), next_source=1),
            report(entry(0, topic="dark"), last_stable=-1, fault="source-denied: no right"),
            report(entry(0, topic="busy"), next_source=110, records=95),
            time_ms=NOW - 1_000,
        )
    ]
    later = [snapshot(report(entry(0, topic="busy"), next_source=110, records=200), time_ms=NOW)]

    found = busiest(newest(made), newest([*made, *later]))

    assert [one.topic for one in found] == ["dark", "late", "busy", "idle"]
    assert [one.waiting for one in found] == [None, 109, 0, 0]
    assert [one.standing for one in found] == [1, 0, 0, 0]
    assert summary(found) == (
        "105 records/s, 0.0 MB/s by 1 worker; some records wait; with a fault: 1 partition"
    )
    assert summary([Busy("t", 1234.0, 5e6, 6_000)]) == (
        "1,234 records/s, 5.0 MB/s by 0 workers; 6,000 records wait; with a fault: 0 partitions"
    )
