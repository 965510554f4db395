"""Samples are dated by the broker that stamps them, as events are: clocks may be hours off."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.records import samples
from mirrorfleet.records.topics import ControlKind
from spark import schemas
from spark.jobs.running import Job
from spark.jobs.slo_report import _samples
from tests.spark.frames import frame
from tests.unit.views.making import NOW, entry, sample

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
APPENDED, CREATED = 1, 0


class Samples:
    """The samples topic; one record, stored at `NOW`."""

    def __init__(
        self, session: SparkSession, time_ms: int, age_ms: int | None, timestamp_type: int
    ) -> None:
        told = replace(sample(entry(0)), time_ms=time_ms)
        key, value = samples.encode(told, None if age_ms is None else time_ms + age_ms)
        row = (0, 0, NOW, timestamp_type, key, value, None)
        self.target, self.records = self, frame(session, [row], schemas.RECORDS)

    def read(self, _topic: str, _since_ms: int) -> DataFrame:
        return self.records

    def topic(self, kind: ControlKind) -> str:
        return str(kind)


@pytest.mark.parametrize(
    ("told_ms", "age_ms", "timestamp_type", "time_ms"),
    [
        (NOW + HOUR_MS, 0, APPENDED, NOW),
        (NOW - 10 * MINUTE_MS, 0, APPENDED, NOW),
        (NOW - 10 * MINUTE_MS, 10 * MINUTE_MS, APPENDED, NOW - 10 * MINUTE_MS),
        (NOW + HOUR_MS, 10 * MINUTE_MS, APPENDED, NOW - 10 * MINUTE_MS),
        (NOW - HOUR_MS, None, APPENDED, NOW),
        (NOW - HOUR_MS, 0, CREATED, NOW - HOUR_MS),
    ],
    ids=["ahead", "behind", "it waited", "ahead and waited", "older build", "nobody stamps it"],
)
def test_a_sample_is_dated_by_the_broker_where_the_clock_of_its_host_is_off(
    session: SparkSession, told_ms: int, age_ms: int | None, timestamp_type: int, time_ms: int
) -> None:
    stored = Samples(session, told_ms, age_ms, timestamp_type)

    (row,) = _samples(cast("Job", stored), 0).collect()

    assert row.time_ms == time_ms
