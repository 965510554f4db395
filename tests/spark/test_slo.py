from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark import schemas
from spark.jobs import slo_report
from spark.transforms import slo
from tests.spark.frames import frame, plan

START = 600_000
END = START + 4 * 60_000
"""A window of four minutes, 10 to 13."""
WINDOW = {"start_ms": START, "end_ms": END}

Sample = tuple[int, str, str, int, str | None, str | None, int | None, int]


def sample(
    minute: float,
    partition: int = 0,
    verdict: str | None = "ok",
    lag: int | None = 0,
    at: int = 0,
    state: str = "live",
) -> Sample:
    """Seen `minute` minutes into the window, when the next offset was `at`."""
    time_ms = START + round(minute * 60_000)
    return (time_ms, "east->west", "orders", partition, state, verdict, lag, at)


def steady(first: float, last: float, partition: int = 0) -> list[Sample]:
    """A good sample every half minute, from `first` to before `last`."""
    return [sample(first + n / 2, partition) for n in range(round((last - first) * 2))]


def event(
    kind: str,
    records: int | None,
    *,
    first: int | None = 0,
    end: int | None = 9,
    at: int = START,
    cause: str = "",
    told: int | None = None,
) -> object:
    """`at` by the broker; `told` by its writer, at the same time when not given."""
    told_ms = at if told is None else told
    return (at, told_ms, kind, "east->west", "orders", 0, first, end, records, cause)


def entry(partition: int = 0, *, at: float = -9, state: str = "active") -> object:
    time_ms = START + round(at * 60_000)
    names = ("east->west", "orders", partition, state, "east.orders")
    return (time_ms, b"id", *names, False, False, False, 0, "earliest")


def kept(*samples: Sample) -> list[object]:
    """As records of the samples topic; of them only key and time are looked at."""
    return [
        (0, n, one[0], 0, f"{one[1]}/{one[2]}/{one[3]}".encode(), b"", None)
        for n, one in enumerate(samples)
    ]


class Evaluate:
    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def counted(
        self,
        samples: Sequence[object],
        catalog: Sequence[object],
        week: Sequence[object] = (),
    ) -> DataFrame:
        """`week` is what the samples topic holds beside these samples."""
        known = frame(self.session, samples, schemas.SAMPLES)
        wanted = frame(self.session, catalog, schemas.CATALOG)
        seen = slo.first_seen(frame(self.session, week, schemas.RECORDS))
        return slo.minutes(known, wanted, seen, **WINDOW)

    def minutes(
        self,
        samples: Sequence[object],
        catalog: Sequence[object] = (),
        week: Sequence[object] = (),
    ) -> list[tuple[object, ...]]:
        """(partition, minute of the window, fresh, available, worst lag), in order."""
        rows = self.counted(samples, catalog, week).drop("link", "topic").collect()
        return sorted((row[0], (row.minute_ms - START) // 60_000, *row[2:]) for row in rows)

    def report(
        self,
        samples: Sequence[object],
        events: Sequence[object] = (),
        catalog: Sequence[object] = (),
    ) -> list[dict[str, object]]:
        known = frame(self.session, samples, schemas.SAMPLES)
        happened = frame(self.session, events, schemas.EVENTS)
        rows = slo.report(self.counted(samples, catalog), known, happened, **WINDOW)
        return [row.asDict() for row in rows.collect()]


@pytest.fixture(scope="module")
def evaluate(session: SparkSession) -> Evaluate:
    return Evaluate(session)


def test_without_samples_and_catalog_there_is_no_report(evaluate: Evaluate) -> None:
    assert evaluate.minutes([]) == []
    assert evaluate.report([]) == []


BY_HAND = [
    # partition 0: good, late (61 s), then nothing new
    sample(-0.5, at=100),
    sample(0.5, at=150),
    sample(1.2, verdict="behind", lag=61_000, at=150),
    sample(1.3, verdict="catching-up", lag=60_000, at=390),
    # partition 1 was added in minute 11: unknown, stuck for a moment, paused
    sample(1.0, 1, "unknown", None),
    sample(1.5, 1, "ok", 0, 10),
    sample(2.1, 1, "stuck", 5_000, 97),
    sample(2.2, 1, "idle", 0, 97),
    sample(2.9, 1, "stopped", 5_000, 97, "paused"),
]


def test_a_report_is_what_a_hand_makes_of_it(evaluate: Evaluate) -> None:
    events = [
        event("gap", 3, first=200, end=210),
        event("gap", None, first=300, end=307),
        event("partition-faulted", None, first=None, end=None),
        event("slot-taken", 99),
    ]

    assert evaluate.report(BY_HAND, events, [entry(), entry(1, at=1.0)]) == [
        {
            "link": "east->west",
            "topic": "orders",
            "window_start_ms": START,
            "window_end_ms": END,
            "partitions": 2,
            "minutes": 6,  # four of partition 0; 11 and 12 of partition 1, which pauses in 13
            # of partition 0 minute 10, and 12 and 13, where the sample of 11.3 holds;
            # of partition 1 minute 12
            "fresh_minutes": 4,
            "available_minutes": 4,  # of partition 0 all four; none of partition 1
            # 100 to 390, and 0 to 97 from where it was first seen; without 10 and 7 in the ledger
            "copied": 370,
            "lost": 10,  # 3 and 307 - 300
            "faults": 1,
            "freshness": 4 / 6,
            "availability": 4 / 6,
            "completeness": 370 / 380,
            "worst_lag_ms": 61_000,
        }
    ]


def test_a_minute_takes_its_worst_sample(evaluate: Evaluate) -> None:
    samples = [sample(3.1, lag=1), sample(3.2, lag=70_000, verdict="faulted"), sample(3.3, lag=2)]

    assert evaluate.minutes(samples) == [(0, 3, False, False, 70_000)]


def test_a_sample_holds_into_the_minutes_after_it_but_not_for_ever(evaluate: Evaluate) -> None:
    assert evaluate.minutes([sample(-0.2, verdict="stuck", lag=9)], [entry()]) == [
        (0, 0, True, False, 9),
        (0, 1, True, False, 9),
        (0, 2, True, False, 9),  # until 2.8
        (0, 3, False, False, None),
    ]


def test_what_follows_ends_what_held(evaluate: Evaluate) -> None:
    samples = [sample(1.5, verdict="stuck"), *steady(2.0, 4.0)]

    assert [row[:4] for row in evaluate.minutes(samples)] == [
        (0, 1, True, False),
        (0, 2, True, True),
        (0, 3, True, True),
    ]


@pytest.mark.parametrize(("verdict", "lag"), [("ok", None), (None, 0), ("unknown", 0)])
def test_what_is_not_known_is_not_good(
    evaluate: Evaluate, verdict: str | None, lag: int | None
) -> None:
    ((_, _, fresh, available, _),) = evaluate.minutes([sample(3.0, verdict=verdict, lag=lag)])

    assert (fresh, available) == (lag is not None, verdict == "ok")


def test_a_partition_that_nobody_ever_saw_is_neither_fresh_nor_available(
    evaluate: Evaluate,
) -> None:
    catalog = [entry(at=2.5), entry(1, at=9), entry(2, state="paused")]

    assert evaluate.minutes([], catalog) == [(0, 2, False, False, None), (0, 3, False, False, None)]


def test_a_partition_that_is_not_copied_any_more_is_counted_until_its_last_sample(
    evaluate: Evaluate,
) -> None:
    minutes = evaluate.minutes([*steady(0, 1.5), *steady(-5, -4, partition=1)])

    assert [row[:2] for row in minutes] == [(0, 0), (0, 1)]


def test_a_partition_that_was_seen_long_ago_is_counted_though_its_entry_is_newer(
    evaluate: Evaluate,
) -> None:
    week = [*kept(sample(-9_000), sample(-400, 1)), (0, 9, 0, 0, b"newer", b"", None)]

    minutes = evaluate.minutes(steady(3, 4), [entry(at=2.5)], week)

    assert minutes == [
        (0, 0, False, False, None),
        (0, 1, False, False, None),
        (0, 2, False, False, None),
        (0, 3, True, True, 0),
    ]


def test_a_partition_whose_entry_was_written_again_after_the_window_is_counted_to_its_end(
    evaluate: Evaluate,
) -> None:
    """The newest entry is all that a compacted topic keeps; silence before it is silence still."""
    minutes = evaluate.minutes(steady(0, 0.5), [entry(at=9)])

    assert [(row[1], row[2]) for row in minutes] == [(0, True), (1, True), (2, True), (3, False)]


def test_repeated_and_late_samples_change_nothing(evaluate: Evaluate) -> None:
    samples = [sample(0, lag=9, at=1), sample(1, lag=8, at=5), sample(3, at=7)]

    assert evaluate.report([*reversed(samples), *samples, samples[0]]) == evaluate.report(samples)


def test_samples_and_events_outside_of_the_window_are_not_counted(evaluate: Evaluate) -> None:
    inside = [sample(2, at=5), sample(3, at=9)]
    outside = [sample(4, at=999, lag=99_000)]
    late = [event("gap", 5, at=START - 1), event("gap", 5, at=END)]

    assert evaluate.report([*inside, *outside], late) == evaluate.report(inside)


def test_a_gap_that_was_told_twice_is_lost_once(evaluate: Evaluate) -> None:
    events = [event("gap", 4), event("gap", 4, at=START + 5), event("records-dropped", 1, first=8)]

    (row,) = evaluate.report([sample(0, at=10), sample(1, at=25)], events)

    assert (row["copied"], row["lost"], row["completeness"]) == (5, 5, 0.5)


def test_a_fault_that_was_told_twice_happened_once(evaluate: Evaluate) -> None:
    """The broker dates each copy of an event whose first answer was lost."""
    stamps = [(START, START - 7), (START + 3_000, START - 7), (START + 3_000, START + 5)]
    faults = [
        event("partition-faulted", None, first=None, end=None, at=at, told=told)
        for at, told in stamps
    ]

    (row,) = evaluate.report([sample(0)], faults)

    assert row["faults"] == 2


@pytest.mark.parametrize("kind", ["partition-faulted", "gap"])
def test_an_event_that_was_told_again_in_the_next_window_happened_in_the_first(
    evaluate: Evaluate, kind: str
) -> None:
    twice = [event(kind, 1, at=at, told=START - 9) for at in (START - 1, START + 3_000)]

    (row,) = evaluate.report([sample(0)], twice)

    assert (row["faults"], row["lost"]) == (0, 0)


def test_of_a_range_of_drops_what_was_not_dropped_was_copied(evaluate: Evaluate) -> None:
    events = [event("records-dropped", 10, first=0, end=100)]

    (row,) = evaluate.report([sample(0, at=0), sample(1, at=100)], events)

    assert (row["copied"], row["lost"], row["completeness"]) == (90, 10, 0.9)


@pytest.mark.parametrize(
    "cause", ["source-recreated", "source-truncated", "target-recreated", "target-truncated"]
)
def test_what_a_former_topic_lost_is_not_taken_from_what_was_copied_of_the_new_one(
    evaluate: Evaluate, cause: str
) -> None:
    events = [event("gap", None, first=900, end=1_900, cause=cause)]

    (row,) = evaluate.report([sample(0, at=0), sample(1, at=1_000)], events)

    assert (row["copied"], row["lost"], row["completeness"]) == (1_000, 1_000, 0.5)


def test_a_position_that_goes_back_has_passed_nothing(evaluate: Evaluate) -> None:
    (row,) = evaluate.report(
        [sample(0, at=90), sample(1, at=100), sample(2, at=60), sample(3, at=63)]
    )

    assert row["copied"] == 13


def test_a_sample_that_heard_of_no_position_moves_none(evaluate: Evaluate) -> None:
    """`lag` runs before the mirror, or begins again while nobody has the slot: 0 is no offset."""
    unheard = [sample(n, verdict="unknown", lag=None, state="", at=0) for n in (0, 1.5, 3)]
    heard = [sample(1, at=5_000_000), sample(2, at=5_000_010)]
    lost = [event("gap", None, first=5_000_000, end=5_000_002)]

    (row,) = evaluate.report([*unheard, *heard], lost)

    assert (row["copied"], row["lost"], row["completeness"]) == (8, 2, 0.8)


@pytest.mark.parametrize("state", ["faulted", "starting", "paused"])
def test_what_came_before_a_first_position_was_not_copied(evaluate: Evaluate, state: str) -> None:
    """A topic that we may not read yet, of which only what is new is copied."""
    waiting = [sample(n, verdict="faulted", lag=None, state=state) for n in (0, 1)]

    (row,) = evaluate.report([*waiting, sample(2, at=80_000_000), sample(3, at=80_000_010)])

    assert row["copied"] == 10


def test_a_partition_that_stands_still_where_it_is_has_a_position(evaluate: Evaluate) -> None:
    faulted = [sample(n, verdict="faulted", at=7, state="faulted") for n in (0, 1)]

    (row,) = evaluate.report([*faulted, sample(2, at=9)])

    assert row["copied"] == 2


def test_the_series_sums_partitions_by_the_minute(evaluate: Evaluate) -> None:
    samples = [sample(2, 0, lag=5), sample(2, 1, verdict="faulted", lag=90_000), sample(3, 0)]

    rows = slo.series(evaluate.counted(samples, [entry()])).collect()

    assert sorted(tuple(row)[2:] for row in rows) == [
        (START, 1, 0, 0, None),
        (START + 60_000, 1, 0, 0, None),
        (START + 120_000, 2, 1, 1, 90_000),
        (START + 180_000, 1, 1, 1, 0),
    ]


def test_no_plan_runs_python_a_row_at_a_time(evaluate: Evaluate) -> None:
    known = frame(evaluate.session, [sample(0)], schemas.SAMPLES)
    happened = frame(evaluate.session, [event("gap", 1)], schemas.EVENTS)
    counted = evaluate.counted([sample(0)], [entry()])

    text = plan(slo.report(counted, known, happened, **WINDOW))

    assert "HashAggregate" in text
    assert "EvalPython" not in text


@pytest.mark.parametrize("option", ["--hours", "--fresh-within", "--keep-days"])
def test_a_window_without_length_is_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--estate", "estate.yaml", "--target", "west", "--output", "reports"]

    with pytest.raises(SystemExit):
        slo_report.main([*asked, option, "0"])
    assert f"argument {option}: invalid positive value: '0'" in capsys.readouterr().err
