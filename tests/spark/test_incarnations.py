from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.records.events import Event, encode
from mirrorfleet.records.topics import ControlKind
from spark import schemas
from spark.jobs.running import Job, happened
from spark.transforms import incarnations
from tests.spark.frames import frame, plan

REMOVED_MS = 1_000


def entry(
    incarnation: int,
    state: str = "active",
    *,
    at: int = 9_000,
    partition: int = 0,
    copied_to: str = "east.orders",
) -> object:
    name = b"%d" % incarnation
    topic = ("east->west", "orders", partition, state, copied_to)
    return (at, name, *topic, incarnation == 0, False, False, incarnation, "earliest")


def event(at: int, first: int, cause: str = "", partition: int = 0) -> object:
    return (at, at, "gap", "east->west", "orders", partition, first, first + 1, None, cause)


class Known:
    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def current(self, entries: Sequence[object]) -> DataFrame:
        return incarnations.current(frame(self.session, entries, schemas.CATALOG))

    def copied(self, entries: Sequence[object]) -> list[tuple[object, ...]]:
        """(partition, incarnation, target topic, append time, since) in order."""
        found = self.current(entries).select(
            "partition", "incarnation", "target_topic", "target_append_time", "since_ms"
        )
        return sorted(tuple(row) for row in found.collect())

    def told(self, entries: Sequence[object], events: Sequence[object]) -> list[tuple[int, int]]:
        """(partition, first offset) of what speaks of what is copied now."""
        known = incarnations.told(
            frame(self.session, events, schemas.EVENTS), self.current(entries)
        )
        return sorted((row.partition, row["first"]) for row in known.collect())


@pytest.fixture(scope="module")
def known(session: SparkSession) -> Known:
    return Known(session)


AGAIN = [entry(1), entry(0, "removed", at=REMOVED_MS)]


def test_of_a_partition_that_began_anew_only_the_last_incarnation_is_taken(known: Known) -> None:
    entries = [*AGAIN, entry(0, partition=1), entry(0, "removed", partition=2)]

    assert known.copied(entries) == [
        (0, 1, "east.orders", False, REMOVED_MS),
        (1, 0, "east.orders", True, None),
    ]


def test_a_paused_partition_is_taken_and_a_topic_that_nothing_takes_now_is_not(
    known: Known,
) -> None:
    assert known.copied([entry(0, "paused"), entry(0, "removed", partition=1)]) == [
        (0, 0, "east.orders", True, None)
    ]


def test_a_copy_under_another_name_is_no_former_incarnation(known: Known) -> None:
    entries = [entry(0, "removed", copied_to="orders"), entry(1)]

    assert known.copied(entries) == [(0, 1, "east.orders", False, None)]


def test_what_is_older_than_the_incarnation_explains_nothing(known: Known) -> None:
    events = [event(REMOVED_MS - 1, 3), event(REMOVED_MS, 4), event(0, 5, partition=1)]

    assert known.told([*AGAIN, entry(0, partition=1)], events) == [(0, 4), (1, 5)]


def test_a_loss_that_ended_the_former_incarnation_is_told_in_its_offsets(known: Known) -> None:
    causes = ("source-recreated", "source-truncated", "retention-overtook", "")
    events = [event(REMOVED_MS + 9, n, cause) for n, cause in enumerate(causes)]

    assert known.told(AGAIN, events) == [(0, 2), (0, 3)]


def test_no_plan_runs_python_a_row_at_a_time(known: Known) -> None:
    events = frame(known.session, [event(0, 0)], schemas.EVENTS)

    text = plan(incarnations.told(events, known.current(AGAIN)))

    assert "Window" in text
    assert "EvalPython" not in text


class Events:
    """The events topic of a worker whose clock is an hour slow; one record, one row."""

    def __init__(self, session: SparkSession, timestamp_type: int) -> None:
        _, value = encode(Event(kind="gap", time_ms=REMOVED_MS - 900, writer="w", first=4, end=5))
        row = (0, 0, REMOVED_MS + 9, timestamp_type, None, value, None)
        self.target, self.records = self, frame(session, [row], schemas.RECORDS)

    def read(self, _topic: str) -> DataFrame:
        return self.records

    def topic(self, kind: ControlKind) -> str:
        return str(kind)


@pytest.mark.parametrize(
    ("timestamp_type", "time_ms"), [(1, REMOVED_MS + 9), (0, REMOVED_MS - 900)]
)
def test_an_event_is_dated_by_the_broker_where_that_stamps_it_and_not_by_the_workers_clock(
    known: Known, timestamp_type: int, time_ms: int
) -> None:
    (row,) = happened(cast("Job", Events(known.session, timestamp_type))).collect()

    assert (row.time_ms, row.told_ms, row["first"]) == (time_ms, REMOVED_MS - 900, 4)
