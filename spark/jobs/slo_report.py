"""Freshness, completeness and availability of every link and topic over a window.

Reads the samples of `lag`, the catalog and events; writes Parquet (one folder a window, replaced
when run again, removed after `--keep-days`), an HTML page with plots, and one report a topic into
the reports topic.
Small data: a row in five seconds and partition at most.
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

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.records.reports import ReportKind, of_topic
from mirrorfleet.records.samples import HOLDS_MS
from mirrorfleet.records.topics import SAMPLES_DAYS, ControlKind
from spark import io, schemas
from spark.jobs.running import Job, catalog_entries, happened, run
from spark.output import positive, say, writable
from spark.page import PROMISES, page, percent
from spark.transforms import coding, slo

HOUR_MS: Final = 3_600_000
_SLO: Final = "slo"
_SERIES: Final = "series"
_WINDOW: Final = "window_start_ms"


def work(job: Job) -> None:
    """Raises: RefusedError, BrokerSideError; OSError when the output cannot be written."""
    folder = writable(job.arguments.output)
    start_ms, end_ms = _window(job.arguments)
    _refuse_unknown(job, start_ms)
    within_ms = int(job.arguments.fresh_within * 1000)
    samples = _samples(job, start_ms - HOLDS_MS).persist()
    known = slo.first_seen(job.target.read(job.topic(ControlKind.SAMPLES)))
    wanted = catalog_entries(job)
    say(f"samples: {_inside(samples, start_ms, end_ms)} in the window")
    counted = slo.minutes(
        samples,
        wanted,
        known,
        start_ms=start_ms,
        end_ms=end_ms,
        fresh_within_ms=within_ms,
    ).persist()
    found = slo.report(counted, samples, happened(job), start_ms=start_ms, end_ms=end_ms).persist()
    rows = [row.asDict() for row in found.orderBy("link", "topic").collect()]
    say(f"topics: {len(rows)}")
    job.report([of_topic(ReportKind.SLO, row) for row in rows])
    _write(folder, found, slo.series(counted).persist(), start_ms)
    kept_ms = time.time_ns() // 1_000_000 - int(job.arguments.keep_days * 24 * HOUR_MS)
    for kind in (_SLO, _SERIES):
        io.forget_parquet(folder / kind, _WINDOW, min(kept_ms, start_ms))
    for row in rows:
        shares = ", ".join(f"{name} {percent(row[name])}" for name in PROMISES)
        print(f"{row['link']} {row['topic']}: {shares}, lost {row['lost']}")
    print(f"page: {folder / 'slo.html'}")


def _refuse_unknown(job: Job, start_ms: int) -> None:
    """Raises: RefusedError for a window that begins before the oldest samples of a slot.

    What nobody can know any more would count as an outage. Where nothing was deleted, or a topic
    keeps more than ours do, all is there.
    """
    kept_ms = SAMPLES_DAYS * 24 * HOUR_MS
    if start_ms >= time.time_ns() // 1_000_000 - kept_ms - HOUR_MS:  # segments go as a whole
        return
    topic = job.topic(ControlKind.SAMPLES)
    cut = [number for number, each in job.target.admin.ranges(topic).items() if each.start > 0]
    oldest = job.target.read(topic).where(F.col("partition").isin(cut)).groupBy("partition")
    begins = oldest.agg(F.min("timestamp_ms").alias("ms")).agg(F.max("ms").alias("ms"))
    begin_ms = begins.collect()[0].ms
    if begin_ms is not None and begin_ms > start_ms:
        raise RefusedError(
            f"the window begins {(begin_ms - start_ms) / HOUR_MS:.1f} hours before the oldest"
            f" samples that are left ({kept_ms / HOUR_MS:g} hours are kept).",
            hint="Ask for a later one, with --hours or --end-ms; earlier reports have the others.",
        )


def _write(folder: Path, found: DataFrame, series: DataFrame, start_ms: int) -> None:
    window = {_WINDOW: start_ms}
    io.write_parquet(found, folder / _SLO, window)
    io.write_parquet(series, folder / _SERIES, window)
    rows, minutes = ([row.asDict() for row in frame.collect()] for frame in (found, series))
    (folder / "slo.html").write_text(page(rows, minutes), encoding="utf-8")


def _inside(samples: DataFrame, start_ms: int, end_ms: int) -> int:
    inside: int = samples.where(F.col("time_ms").between(start_ms, end_ms - 1)).count()
    return inside


def _window(arguments: argparse.Namespace) -> tuple[int, int]:
    """Whole minutes; the one that is not over yet is left out."""
    end = arguments.end_ms or time.time_ns() // 1_000_000
    end = end // slo.MINUTE_MS * slo.MINUTE_MS
    return end - int(arguments.hours * HOUR_MS) // slo.MINUTE_MS * slo.MINUTE_MS, end


def _samples(job: Job, since_ms: int) -> DataFrame:
    records = job.target.read(job.topic(ControlKind.SAMPLES), since_ms)
    records = records.select("timestamp_ms", "timestamp_type", "key", "value")
    return records.mapInArrow(coding.decode_samples, schemas.SAMPLES)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", required=True, help="folder for Parquet and the page")
    parser.add_argument("--hours", type=positive, default=24.0, help="length of the window")
    parser.add_argument("--end-ms", type=int, help="end of the window; now when not given")
    parser.add_argument(
        "--keep-days",
        type=positive,
        default=30.0,
        help="windows that began earlier are removed (30)",
    )
    seconds = slo.FRESH_WITHIN_MS / 1000
    parser.add_argument(
        "--fresh-within",
        type=positive,
        default=seconds,
        help="seconds of time lag that are allowed",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spark.jobs.slo_report --estate FILE --target ALIAS --output FOLDER`."""
    return run("slo_report", work, argv, _options)


if __name__ == "__main__":
    sys.exit(main())
