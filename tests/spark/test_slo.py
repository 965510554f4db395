from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from spark import schemas
from spark.transforms import slo
from tests.spark.frames import frame, plan

START = 600_000
END = START + 4 * 60_000
"""A window of four minutes, 10 to 13."""

Sample = tuple[int, str, str, int, bytes, str | None, int | None, int]


def sample(
    minute: float,
    partition: int = 0,
    state: str | None = "live",
    lag: int | None = 0,
    records: int = 0,
) -> Sample:
    at = START + int(minute * 60_000)
    return (at, "east->west", "orders", partition, b"id%d" % partition, state, lag, records)


def event(
    kind: str, records: int | None, *, first: int = 0, end: int = 9, at: int = START
) -> object:
    return (at, kind, "east->west", "orders", 0, first, end, records)


class Evaluate:
    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def minutes(self, samples: Sequence[object]) -> list[tuple[object, ...]]:
        """(partition, minute of the window, fresh, available, worst lag), in order."""
        known = frame(self.session, samples, schemas.SAMPLES)
        rows = slo.minutes(known, start_ms=START, end_ms=END).collect()
        return sorted(
            (
                row.partition,
                (row.minute_ms - START) // 60_000,
                row.fresh,
                row.available,
                row.worst_lag_ms,
            )
            for row in rows
        )

    def report(
        self, samples: Sequence[object], events: Sequence[object] = ()
    ) -> list[dict[str, object]]:
        known = frame(self.session, samples, schemas.SAMPLES)
        happened = frame(self.session, events, schemas.EVENTS)
        counted = slo.minutes(known, start_ms=START, end_ms=END)
        rows = slo.report(counted, known, happened, start_ms=START, end_ms=END)
        return [row.asDict() for row in rows.collect()]


@pytest.fixture(scope="module")
def evaluate(session: SparkSession) -> Evaluate:
    return Evaluate(session)


def test_without_samples_there_is_no_report(evaluate: Evaluate) -> None:
    assert evaluate.minutes([]) == []
    assert evaluate.report([]) == []


def test_a_report_is_what_a_hand_makes_of_it(evaluate: Evaluate) -> None:
    samples = [
        # partition 0: fresh, late (61 s), silent, fresh
        sample(0.0, records=100),
        sample(0.5, records=150),
        sample(1.2, lag=5_000),
        sample(1.3, lag=61_000),
        sample(3.9, lag=60_000, records=400),
        # partition 1 is seen from minute 1 on: starting, faulted, paused
        sample(1.0, 1, state="starting", lag=None),
        sample(2.0, 1, state="live", lag=0, records=0),
        sample(2.5, 1, state="faulted", lag=0, records=97),
        sample(3.5, 1, state="paused", lag=0, records=97),
    ]
    events = [event("gap", 3), event("gap", None, first=20, end=27), event("slot-taken", 99)]

    assert evaluate.report(samples, events) == [
        {
            "link": "east->west",
            "topic": "orders",
            "window_start_ms": START,
            "window_end_ms": END,
            "partitions": 2,
            "minutes": 6,  # four of partition 0; two of partition 1, whose third is paused
            "fresh_minutes": 3,  # 10, 13; and 12 of partition 1
            "available_minutes": 3,  # 10, 11, 13
            "copied": 497,  # 400 and 97
            "lost": 10,  # 3 and 27 - 20
            "freshness": 3 / 6,
            "availability": 3 / 6,
            "completeness": 497 / 507,
            "worst_lag_ms": 61_000,
        }
    ]


def test_a_minute_takes_its_worst_sample(evaluate: Evaluate) -> None:
    samples = [sample(3.1, lag=1), sample(3.2, lag=70_000, state="faulted"), sample(3.3, lag=2)]

    assert evaluate.minutes(samples) == [(0, 3, False, False, 70_000)]


@pytest.mark.parametrize(("state", "lag"), [("live", None), (None, 0)])
def test_what_is_not_known_is_not_good(
    evaluate: Evaluate, state: str | None, lag: int | None
) -> None:
    ((_, _, fresh, available, _),) = evaluate.minutes([sample(3.0, state=state, lag=lag)])

    assert (fresh, available) == (lag is not None, state is not None)


def test_repeated_and_late_samples_change_nothing(evaluate: Evaluate) -> None:
    samples = [sample(0, lag=9, records=1), sample(1, lag=8, records=5), sample(3, records=7)]

    assert evaluate.report([*reversed(samples), *samples, samples[0]]) == evaluate.report(samples)


def test_samples_and_events_outside_of_the_window_are_not_counted(evaluate: Evaluate) -> None:
    inside = [sample(2, records=5), sample(3, records=9)]
    outside = [sample(-0.01, records=1, lag=99_000), sample(4, records=999)]
    late = [event("gap", 5, at=START - 1), event("gap", 5, at=END)]

    assert evaluate.report([*inside, *outside], late) == evaluate.report(inside)


def test_a_gap_that_was_told_twice_is_lost_once(evaluate: Evaluate) -> None:
    events = [event("gap", 4), event("gap", 4, at=START + 5), event("records-dropped", 1, first=50)]

    (row,) = evaluate.report([sample(0, records=10), sample(1, records=15)], events)

    assert (row["copied"], row["lost"], row["completeness"]) == (5, 5, 0.5)


def test_a_counter_of_a_topic_made_again_counts_by_itself(evaluate: Evaluate) -> None:
    again = (START + 1, "east->west", "orders", 0, b"other", "live", 0, 3)

    (row,) = evaluate.report([sample(0, records=90), sample(1, records=100), again])

    assert row["copied"] == 10


def test_the_series_sums_partitions_by_the_minute(evaluate: Evaluate) -> None:
    known = frame(
        evaluate.session,
        [sample(2, 0, lag=5), sample(2, 1, state="faulted", lag=90_000), sample(3, 0)],
        schemas.SAMPLES,
    )

    rows = slo.series(slo.minutes(known, start_ms=START, end_ms=END)).collect()

    assert sorted(tuple(row)[2:] for row in rows) == [
        (START + 120_000, 2, 1, 1, 90_000),
        (START + 180_000, 2, 1, 1, 0),
    ]


def test_the_catalog_says_whose_link_a_partition_is(evaluate: Evaluate) -> None:
    progress = [(1, "orders", 0, b"a", "live", 0, 5), (1, "orders", 0, b"gone", "live", 0, 5)]
    catalog = [(b"a", "east->west", "orders", "east.orders", False)]

    joined = slo.with_links(
        frame(evaluate.session, progress, schemas.PROGRESS),
        frame(evaluate.session, catalog, schemas.CATALOG),
    )

    assert [tuple(row) for row in joined.collect()] == [
        (1, "east->west", "orders", 0, b"a", "live", 0, 5)
    ]


def test_no_plan_runs_python_a_row_at_a_time(evaluate: Evaluate) -> None:
    known = frame(evaluate.session, [sample(0)], schemas.SAMPLES)
    happened = frame(evaluate.session, [event("gap", 1)], schemas.EVENTS)
    counted = slo.minutes(known, start_ms=START, end_ms=END)

    text = plan(slo.report(counted, known, happened, start_ms=START, end_ms=END))

    assert "HashAggregate" in text
    assert "EvalPython" not in text
