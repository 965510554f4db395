"""A compacted topic is read whole, though its cleaner and its writers are at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark import io
from tests.spark.control_logs import Logs

ARCHIVE = "archive"
SHORT, LONG, OTHER = (b"short", b"1"), (b"long", b"2"), (b"other", b"3")


@pytest.fixture
def logs(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Logs:
    made = Logs(session, {ARCHIVE: 2})
    monkeypatch.setattr(io, "read_topic", made.read_topic)
    made.append(ARCHIVE, SHORT)
    made.append(ARCHIVE, OTHER, partition=1)
    return made


def keys(logs: Logs) -> set[bytes]:
    rows = logs.cluster.read_on(ARCHIVE).collect()
    assert len({(row.partition, row.offset) for row in rows}) == len(rows)
    return {bytes(row.key) for row in rows if row.value is not None}


def test_what_replaces_a_block_that_is_cleaned_away_meanwhile_is_read(logs: Logs) -> None:
    def replace() -> None:
        logs.append(ARCHIVE, LONG, (SHORT[0], None))
        logs.clean(ARCHIVE)

    nothing: Callable[[], None] = lambda: None  # noqa: E731 - the read that only has the columns
    logs.meanwhile[ARCHIVE] = [nothing, replace]

    assert keys(logs) == {LONG[0], OTHER[0]}


def test_a_topic_that_stands_still_is_read_once_and_an_empty_one_has_no_record(
    logs: Logs,
) -> None:
    assert keys(logs) == {SHORT[0], OTHER[0]}
    assert logs.asked == [{0: (0, 1), 1: (0, 1)}] * 2  # for the columns, and for the records
    logs.free(ARCHIVE, {0: 1, 1: 1})
    assert keys(logs) == set()
