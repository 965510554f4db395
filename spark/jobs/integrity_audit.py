"""Every record of a topic compared on both sides, through the offset map.

Reads where both sides stand, then the map, and both topics and the gap ledger after it: so the map
knows all up to where they stood, and all that it speaks of is there. What is not copied yet, or not
held any more on one side, is not compared; what the gap ledger names is listed, and is no fault.

Of a partition that began anew only the incarnation that is copied now is compared. A copy begins
with its first record in the map: what the target held before, adopted or of a former incarnation,
is not compared. Where it started by a time, or at the end, so does the source. Skew: the busiest
partition.

Nothing compared is not intact: each such partition is named, with the reason. The job fails where
both sides hold records of it and the map knows none, where the source holds records that nothing
copies, and where the target has no partition any more of which the map has records. The report
says when that was, and of what. Exit 2: all was done, and the copy is not intact.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from mirrorfleet.core.errors import CorruptBatchError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.records import positions
from mirrorfleet.records.reports import Report, ReportKind
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.broker import Admin, Range, UnknownTopicError
from spark.jobs.running import (
    Cluster,
    Job,
    NotIntactError,
    catalog_entries,
    happened,
    refuse_problems,
    run,
)
from spark.jobs.uncompared import and_more, refuse_gone, refuse_uncopied
from spark.output import say, writable
from spark.transforms import coding, compaction, incarnations, integrity, slo

SHOWN: Final = 50
"""Findings that are printed; all are in the Parquet."""
_EXACT: Final = ("earliest", "offset")
"""Starts that say which source records are to be there, whatever the map says."""
SETTLES_S: Final = 60.0
"""A transaction of the mirror is over long before."""
_BAD: Final = ("missing", "extra", "altered", "out_of_order", "displaced")


class Settled(NamedTuple):
    """Up to where the map says all that it ever will, by partition."""

    source: Mapping[int, int]
    target: Mapping[int, int]
    is_known: bool = True
    """Otherwise nothing behind the map's end is compared."""


class Scope(NamedTuple):
    """What was looked at, whatever was found there."""

    link: str
    time_ms: int
    """When it began: of what came later nothing is promised."""
    settled: bool
    copied: Sequence[int]
    """Partitions that are copied now."""
    uncopied: Mapping[int, Range]
    """Of the source, without a live entry in the catalog: what is asked for of them."""
    ours: Mapping[int, Range]
    """All others of the source."""
    theirs: Mapping[int, Range]
    readable: DataFrame
    """`READABLE` of those that both sides have."""
    mapped: DataFrame
    """`POSITIONS`."""

    @property
    def partitions(self) -> list[int]:
        """Those that are copied now, and those that the source has."""
        return sorted({*self.copied, *self.uncopied})


def work(job: Job) -> None:
    """Raises: RefusedError, CorruptBatchError, BrokerSideError."""
    asked, time_ms = job.arguments, time.time_ns() // 1_000_000
    folder = None if asked.output is None else writable(asked.output)
    link = str(Link(ClusterAlias(asked.source), job.alias))
    copied_now = _copied_now(job, link, asked.topic)
    entries: list[Row] = copied_now.collect()
    if not entries:
        raise RefusedError(
            f"topic {asked.topic} is not copied over {link}.",
            hint="If it is held back, mirrorfleet plan says why, and so does /status of sync.",
        )
    source, copied_to = job.cluster(asked.source), entries[0].target_topic
    settled = _settled(job, entries, copied_to)
    mapped = _positions(job, entries).persist()
    say(f"map: {mapped.count()} records")
    copied = [entry.partition for entry in entries]
    ours, uncopied = shared(asked, ranges_of(source.admin, asked.topic), copied)
    theirs = ranges_of(job.target.admin, copied_to)
    compared = integrity.FIELDS[:-1] if entries[0].target_append_time else integrity.FIELDS
    one = _digests(source, asked.topic, ours, compared)
    other = _digests(job.target, copied_to, theirs, compared)
    say(f"read: {one.count()} records of the source, {other.count()} of the target")
    ours = still_there(ours, ranges_of(source.admin, asked.topic))
    theirs = still_there(theirs, ranges_of(job.target.admin, copied_to))
    events = told(job).where((F.col("link") == link) & (F.col("topic") == asked.topic))
    limits = job.session.createDataFrame(held(asked, entries, ours, theirs, settled), schemas.HELD)
    audit = integrity.compare(
        one,
        other,
        mapped,
        limits,
        slo.ledger(incarnations.told(events, copied_now)),
        compacted=entries[0].target_compacted,
        source_compacted=entries[0].source_compacted,
    )
    readable = integrity.readable(one, other, mapped, limits)
    scope = Scope(link, time_ms, settled.is_known, copied, uncopied, ours, theirs, readable, mapped)
    _tell(job, audit, scope, folder)


def _digests(
    of: Cluster, topic: str, ranges: Mapping[int, Range], compared: Sequence[str]
) -> DataFrame:
    records = io.read_topic(of.session, of.options, topic, ranges)
    return integrity.digests(records, compared).persist()


def _copied_now(job: Job, link: str, topic: str) -> DataFrame:
    """`INCARNATIONS`, small, and the same however often it is asked."""
    entries = catalog_entries(job).where((F.col("link") == link) & (F.col("topic") == topic))
    return incarnations.current(entries).persist()


def _settled(job: Job, entries: Sequence[Row], copied_to: str) -> Settled:
    """What is copied, as of now; nothing when the map of it cannot be read for a long time."""
    held_now = ranges_of(job.target.admin, copied_to)
    target = {number: each.end for number, each in held_now.items()}
    source = _stand(job, entries)
    if settles(job.target.admin, job.topic(ControlKind.SEGMENTS)):
        return Settled(source, target)
    say("a transaction stays open in the map: nothing is compared behind the map's end")
    return Settled({}, {}, is_known=False)


def settles(admin: Admin, topic: str, *, within_s: float = SETTLES_S, poll_s: float = 0.2) -> bool:
    """Wait until all that is written now can be read.

    The markers of a transaction come to its partitions one by one: a copy may be there before the
    map tells of it. Raises: BrokerSideError.
    """
    written = admin.written(topic)
    until = time.monotonic() + within_s
    while any(each.end < written.get(n, 0) for n, each in admin.ranges(topic).items()):
        if time.monotonic() > until:
            return False
        time.sleep(poll_s)
    return True


def told(job: Job) -> DataFrame:
    """All events, when those of what the map speaks of can be read: their marker may come later."""
    if not settles(job.target.admin, job.topic(ControlKind.EVENTS)):
        say("a transaction stays open in the gap ledger: what it tells of may be called missing")
    return happened(job)


def _stand(job: Job, entries: Sequence[Row]) -> dict[int, int]:
    """The position of each partition: what is before it was copied, or is not to be."""
    keys = [positions.position_key(coding.parse_identity(bytes(e.identity))) for e in entries]
    told = job.target.read(job.topic(ControlKind.POSITIONS)).where(F.col("key").isin(keys))
    newest = told.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    found = (
        positions.decode(bytes(row.key), None if row.value is None else bytes(row.value))
        for row in newest.collect()
    )
    return {
        each.identity.partition: each.next_source
        for each in found
        if isinstance(each, positions.Position)
    }


def _positions(job: Job, entries: Sequence[Row]) -> DataFrame:
    segments = compaction.segment_runs(job.target.read(job.topic(ControlKind.SEGMENTS))).persist()
    segments.count()  # before the archive: what is packed and freed meanwhile is there by then
    archive = job.target.read_on(job.topic(ControlKind.ARCHIVE))
    archived = compaction.archive_runs(archive).persist()
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


def ranges_of(admin: Admin, topic: str) -> dict[int, Range]:
    """By partition; of a topic that somebody deleted there are none. Raises: BrokerSideError."""
    try:
        return admin.ranges(topic)
    except UnknownTopicError:
        return {}


def shared(
    asked: argparse.Namespace, source: Mapping[int, Range], copied: Collection[int]
) -> tuple[dict[int, Range], dict[int, Range]]:
    """All of the source that is copied, and what is asked for of the partitions that are not."""
    ours = {number: each for number, each in source.items() if number in copied}
    rest = {
        number: Range(
            max(asked.first, each.start),
            each.end if asked.end is None else min(asked.end, each.end),
        )
        for number, each in source.items()
        if number not in copied
    }
    return ours, rest


def still_there(read: Mapping[int, Range], now: Mapping[int, Range]) -> dict[int, Range]:
    """What was read without what retention took meanwhile, of which a part may have been read."""
    return {
        number: Range(max(each.start, now[number].start), each.end)
        for number, each in read.items()
        if number in now
    }


def held(
    asked: argparse.Namespace,
    entries: Sequence[Row],
    ours: Mapping[int, Range],
    theirs: Mapping[int, Range],
    settled: Settled,
) -> list[tuple[int | bool | None, ...]]:
    """Rows of `HELD`: what is asked for and there, of the partitions that are copied now."""
    rows: list[tuple[int | bool | None, ...]] = []
    for entry in entries:
        number, (word, _, value) = entry.partition, entry.start.partition(":")
        if number not in ours or number not in theirs:
            continue
        one, other = ours[number], theirs[number]
        begin = int(value) if word == "offset" else 0
        rows.append(
            (
                number,
                max(asked.first, one.start, begin),
                one.end if asked.end is None else min(asked.end, one.end),
                other.start,
                other.end,
                settled.source.get(number),
                settled.target.get(number),
                word not in _EXACT,
                True,  # an adopted topic held records before; the catalog does not name it
            )
        )
    return rows


def _tell(job: Job, audit: integrity.Audit, scope: Scope, folder: Path | None) -> None:
    topic = job.arguments.topic
    names = [name for name in schemas.columns(schemas.TOTALS) if name != "partition"]
    totals = {row.partition: row for row in audit.totals.collect()}
    left = _uncompared(scope, totals)
    lines = {n: ", ".join(f"{name} {row[name]}" for name in names) for n, row in totals.items()}
    lines |= {n: f"not compared: {_why(scope, n, has)}" for n, has in left.items()}
    for number in sorted(lines):
        print(f"{topic}-{number}: {lines[number]}")
    summed = {name: sum(row[name] for row in totals.values()) for name in names}
    findings = audit.findings.orderBy("partition", "kind", "source_first", "target_first")
    for row in findings.limit(SHOWN).collect():
        print(
            f"{row.kind} {topic}-{row.partition}: source {row.source_first}..{row.source_last},"
            f" target {row.target_first}..{row.target_last}, {row.records} records {row.detail}"
        )
    if folder is not None:
        io.write_parquet(findings, folder / "integrity", {"link": scope.link, "topic": topic})
    _report(job, scope, len(totals), summed)
    bad = {name: count for name, count in summed.items() if name in _BAD and count}
    if bad:
        raise NotIntactError(f"the copy of {topic} over {scope.link} is not intact: {bad}.")
    refuse_unmapped(topic, left.values())
    refuse_uncopied(topic, scope.link, scope.uncopied)
    lacking = [number for number in left if number not in scope.theirs]
    refuse_gone(topic, scope.link, _mapped(scope.mapped, set(lacking) - scope.uncopied.keys()))


def _uncompared(scope: Scope, compared: Collection[int]) -> dict[int, Row | None]:
    """The other partitions, with their `READABLE`; None where a side has no such partition."""
    left = [number for number in scope.partitions if number not in compared]
    found = scope.readable.where(F.col("partition").isin(left)).collect() if left else []
    known = {row.partition: row for row in found}
    return {number: known.get(number) for number in left}


def _mapped(mapped: DataFrame, numbers: Collection[int]) -> dict[int, int]:
    """How many records the map has of these partitions; those without any are left out."""
    if not numbers:
        return {}
    wanted = mapped.where(F.col("partition").isin(list(numbers)))
    found = wanted.groupBy("partition").agg(F.count("*").alias("records")).collect()
    return {row.partition: row.records for row in found}


def _why(scope: Scope, number: int, has: Row | None) -> str:
    if number in scope.uncopied:
        return "the catalog has no entry of it: nothing copies it"
    return why_not(number, {**scope.ours, **scope.uncopied}, scope.theirs, has)


def why_not(
    number: int, ours: Mapping[int, Range], theirs: Mapping[int, Range], has: Row | None
) -> str:
    """Why nothing of a partition was compared, by what both sides have and its `READABLE`."""
    if has is None:
        side, there = ("source", ours) if number in theirs else ("target", theirs)
        return f"the {side} has no such {'partition' if there else 'topic'}"
    if not has.source_records:
        return "the source has no record of what is asked for"
    if has.mapped_records:
        return "of what is asked for nothing is copied yet, or one side holds none of it any more"
    if has.target_records:
        return "the offset map has nothing of it"
    return "nothing of it is copied yet"


def refuse_unmapped(topic: str, uncompared: Iterable[Row | None]) -> None:
    """Where both sides hold records, a map that is lost must not look like a copy that is intact.

    Raises: NotIntactError.
    """
    known = [has for has in uncompared if has is not None and not has.mapped_records]
    found = [has for has in known if has.source_records and has.target_records]
    if not found:
        return
    one, more = found[0], and_more(len(found) - 1)
    raise NotIntactError(
        f"{topic}-{one.partition}: {one.source_records} records of the source and"
        f" {one.target_records} of the target, and the offset map has none of them: nothing was"
        f" compared.{more}",
        hint="If the map or positions of it are lost, see `mirrorfleet status` and put positions"
        " back with `mirrorfleet positions import`; else wait until something of it is copied.",
    )


def _report(job: Job, scope: Scope, compared: int, summed: Mapping[str, int]) -> None:
    """With its date and range: it stays when later audits are refused before they write one."""
    asked = job.arguments
    fields: dict[str, object] = {
        "time_ms": scope.time_ms,
        "first": asked.first,
        "end": asked.end,
        "partitions": len(scope.partitions),
        "compared": compared,
        "settled": scope.settled,
        **summed,
    }
    job.report([Report(ReportKind.INTEGRITY, (scope.link, asked.topic), fields)])


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
