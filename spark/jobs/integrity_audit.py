"""Every record of a topic compared on both sides, through the offset map.

Reads the map first and both topics after it, so that all that the map speaks of is there. What is
not copied yet, or not held any more on one side, is not compared; what the gap ledger names is
listed, and is no fault. Skew: the busiest partition.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from mirrorfleet.core.errors import CorruptBatchError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.records.reports import Report, ReportKind
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.broker import Range
from spark.jobs.running import Job, catalog_entries, happened, refuse_problems, run
from spark.output import say, writable
from spark.transforms import compaction, integrity, slo

SHOWN: Final = 50
"""Findings that are printed; all are in the Parquet."""
_BAD: Final = ("missing", "extra", "altered", "out_of_order", "displaced")


def work(job: Job) -> None:
    """Raises: RefusedError, CorruptBatchError, BrokerSideError."""
    asked = job.arguments
    folder = None if asked.output is None else writable(asked.output)
    link = str(Link(ClusterAlias(asked.source), job.alias))
    entries = _entries(job, link, asked.topic)
    mapped = _positions(job, entries).persist()
    say(f"map: {mapped.count()} records")
    source, copied_to = job.cluster(asked.source), entries[0].target_topic
    ours = source.admin.ranges(asked.topic)
    theirs = job.target.admin.ranges(copied_to)
    compared = integrity.FIELDS[:-1] if entries[0].target_append_time else integrity.FIELDS
    one = io.read_topic(job.session, source.options, asked.topic, ours)
    other = io.read_topic(job.session, job.target.options, copied_to, theirs)
    ledger = slo.ledger(happened(job))
    audit = integrity.compare(
        integrity.digests(one, compared),
        integrity.digests(other, compared),
        mapped,
        job.session.createDataFrame(_held(asked, ours, theirs), schemas.HELD),
        ledger.where((F.col("link") == link) & (F.col("topic") == asked.topic)),
    )
    _tell(job, audit, link, folder)


def _entries(job: Job, link: str, topic: str) -> list[Row]:
    wanted = catalog_entries(job).where((F.col("link") == link) & (F.col("topic") == topic))
    found: list[Row] = wanted.collect()
    if not found:
        raise RefusedError(
            f"topic {topic} is not copied over {link}.",
            hint="If it is held back, mirrorfleet plan says why, and so does /status of sync.",
        )
    return found


def _positions(job: Job, entries: Sequence[Row]) -> DataFrame:
    segments = compaction.segment_runs(job.target.read(job.topic(ControlKind.SEGMENTS)))
    archived = compaction.archive_runs(job.target.read(job.topic(ControlKind.ARCHIVE)))
    refuse_problems(compaction.problems(segments).union(compaction.problems(archived)))
    columns = list(schemas.RUN_COLUMNS)
    runs = segments.select(columns).unionByName(archived.select(columns))
    mine = runs.where(F.col("identity").isin([bytes(entry.identity) for entry in entries]))
    mapped = integrity.positions(mine)
    for row in integrity.contradictions(mapped).limit(1).collect():
        raise CorruptBatchError(
            f"the offset map sends source offset {row.source_offset} of partition {row.partition}"
            f" to {list(row.targets)}"
        )
    return mapped


def _held(
    asked: argparse.Namespace, ours: Mapping[int, Range], theirs: Mapping[int, Range]
) -> list[tuple[int, int, int, int, int]]:
    return [
        (
            number,
            max(asked.first, ours[number].start),
            ours[number].end if asked.end is None else min(asked.end, ours[number].end),
            theirs[number].start,
            theirs[number].end,
        )
        for number in sorted(ours.keys() & theirs.keys())
    ]


def _tell(job: Job, audit: integrity.Audit, link: str, folder: Path | None) -> None:
    topic = job.arguments.topic
    totals = [row.asDict() for row in audit.totals.orderBy("partition").collect()]
    for row in totals:
        print(f"{topic}-{row.pop('partition')}: {', '.join(f'{n} {v}' for n, v in row.items())}")
    summed = {name: sum(row[name] for row in totals) for name in (totals[0] if totals else ())}
    findings = audit.findings.orderBy("partition", "kind", "source_first", "target_first")
    for row in findings.limit(SHOWN).collect():
        print(
            f"{row.kind} {topic}-{row.partition}: source {row.source_first}..{row.source_last},"
            f" target {row.target_first}..{row.target_last}, {row.records} records {row.detail}"
        )
    if folder is not None:
        io.write_parquet(findings, folder / "integrity", {"link": link, "topic": topic})
    job.report([Report(ReportKind.INTEGRITY, (link, topic), summed)])
    bad = {name: count for name, count in summed.items() if name in _BAD and count}
    if bad:
        raise RefusedError(f"the copy of {topic} over {link} is not intact: {bad}.")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, help="alias of the source cluster")
    parser.add_argument("--topic", required=True, help="the topic's name on the source")
    parser.add_argument("--first", type=int, default=0, help="first source offset")
    parser.add_argument("--end", type=int, help="source offset behind the last one")
    parser.add_argument("--output", help="folder for Parquet")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spark.jobs.integrity_audit --estate FILE --target ALIAS --source --topic`."""
    return run("integrity_audit", work, argv, _options)


if __name__ == "__main__":
    sys.exit(main())
