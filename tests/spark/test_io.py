from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from spark import io, schemas
from tests.spark.frames import frame

FAULT = ("missing", 0, 3, 4, None, None, 2, "")


def test_an_audit_that_finds_nothing_replaces_the_findings_of_its_topic_and_of_no_other(
    session: SparkSession, tmp_path: Path
) -> None:
    def write(topic: str, *findings: object) -> None:
        found = frame(session, findings, schemas.FINDINGS)
        io.write_parquet(found, tmp_path, {"link": "east->west", "topic": topic})

    write("orders", FAULT)
    write("carts", FAULT)

    write("orders")

    left = session.read.parquet(str(tmp_path))
    assert left.columns == [*schemas.FINDINGS.names, "link", "topic"]
    assert [tuple(row) for row in left.collect()] == [(*FAULT, "east->west", "carts")]


def test_a_window_that_is_reported_again_is_replaced(session: SparkSession, tmp_path: Path) -> None:
    def write(window: int, lost: int) -> None:
        found = session.createDataFrame([(lost, window)], "lost long, window_start_ms long")
        io.write_parquet(found, tmp_path, {"window_start_ms": window})

    write(60_000, 1)
    write(120_000, 2)

    write(60_000, 3)

    left = session.read.parquet(str(tmp_path)).orderBy("window_start_ms")
    assert [tuple(row) for row in left.collect()] == [(3, 60_000), (2, 120_000)]


def test_old_windows_are_removed_and_nothing_else_is(tmp_path: Path) -> None:
    """Each hour writes one of a day: the disk would be full at last."""
    kept = {"window_start_ms=60000", "window_start_ms=120000", "window_start_ms=x", "page"}
    for name in {*kept, "window_start_ms=59999", "window_start_ms=1"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.parquet").touch()

    io.forget_parquet(tmp_path, "window_start_ms", 60_000)
    io.forget_parquet(tmp_path / "not there yet", "window_start_ms", 60_000)

    assert {place.name for place in tmp_path.iterdir()} == kept


def test_what_python_gets_at_once_is_bounded_by_bytes_where_records_are_large(
    session: SparkSession,
) -> None:
    """Blocks of the archive have up to 4 MB, and 2000 records may be in a batch."""

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

    large = session.range(0, 40, 1, 1).selectExpr("repeat('x', 1024 * 1024) AS value")

    found = [row["bytes"] for row in large.mapInArrow(sizes, "bytes long").collect()]

    assert sum(found) > 40 * 2**20
    assert max(found) < 20 * 2**20
