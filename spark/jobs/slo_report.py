"""Freshness, completeness and availability of every link and topic over a window.

Reads samples of progress, the catalog and events; writes Parquet (one folder a window, replaced
when run again), an HTML page with plots, and one report a topic into the reports topic.
Small data: a row a second and partition at most.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mirrorfleet.records.reports import Report, ReportKind
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.jobs.running import Job, catalog_entries, run, say
from spark.page import page
from spark.transforms import coding, slo

HOUR_MS: Final = 3_600_000


def work(job: Job) -> None:
    """Raises: BrokerSideError; OSError when the output cannot be written."""
    start_ms, end_ms = _window(job.arguments)
    samples, events = _samples(job).persist(), _events(job)
    say(f"samples: {samples.count()} in the progress topic")
    counted = slo.minutes(samples, start_ms=start_ms, end_ms=end_ms).persist()
    found = slo.report(counted, samples, events, start_ms=start_ms, end_ms=end_ms).persist()
    series = slo.series(counted).persist()
    folder = Path(job.arguments.output)
    io.write_parquet(found, folder / "slo", ["window_start_ms"])
    window = series.withColumn("window_start_ms", F.lit(start_ms))
    io.write_parquet(window, folder / "series", ["window_start_ms"])
    rows = [row.asDict() for row in found.collect()]
    text = page(rows, [row.asDict() for row in series.collect()])
    (folder / "slo.html").write_text(text, encoding="utf-8")
    job.report([Report(ReportKind.SLO, (row["link"], row["topic"], start_ms), row) for row in rows])
    for row in rows:
        shares = ", ".join(f"{name} {row[name]}" for name in ("freshness", "availability"))
        print(f"{row['link']} {row['topic']}: {shares}, completeness {row['completeness']}")
    print(f"page: {folder / 'slo.html'}")


def _window(arguments: argparse.Namespace) -> tuple[int, int]:
    """Whole minutes; the one that is not over yet is left out."""
    end = arguments.end_ms or time.time_ns() // 1_000_000
    end = end // slo.MINUTE_MS * slo.MINUTE_MS
    return end - int(arguments.hours * HOUR_MS) // slo.MINUTE_MS * slo.MINUTE_MS, end


def _samples(job: Job) -> DataFrame:
    progress = job.target.read(job.topic(ControlKind.PROGRESS)).select("key", "value")
    seen = progress.mapInArrow(coding.decode_progress, schemas.PROGRESS)
    return slo.with_links(seen, catalog_entries(job))


def _events(job: Job) -> DataFrame:
    records = job.target.read(job.topic(ControlKind.EVENTS)).select("value")
    events = records.mapInArrow(coding.decode_events, schemas.EVENTS)
    return events.select(schemas.columns(schemas.EVENTS))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", required=True, help="folder for Parquet and the page")
    parser.add_argument("--hours", type=float, default=24.0, help="length of the window")
    parser.add_argument("--end-ms", type=int, help="end of the window; now when not given")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spark.jobs.slo_report --estate FILE --target ALIAS --output FOLDER`."""
    return run("slo_report", work, argv, _options)


if __name__ == "__main__":
    sys.exit(main())
