"""Pack the offset map: segments into blocks of the archive; then free the segments.

    read -> pack -> write -> read back -> free -> remove blocks that a longer one replaced

The newest segment of each slot stays (`mapping.packing` says why), and is not packed: a broker may
call what was aborted committed to a consumer (`wire/aborted.py`), which nothing contradicts as long
as it is the last; packed it would stay for ever. Killed anywhere and run again it ends in the same
(`transforms.compaction`). One task a slot and partition; the busiest partition bounds the time, its
runs (not its records) count.

A slot with a record that cannot be read, or that contradicts others, is left as it is; when all
others are done the job names it and fails (exit 2): run again at once it finds the same.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.records.topics import ControlKind
from spark import io
from spark.broker import BrokerSideError, Range
from spark.jobs.running import Job, NotIntactError, catalog_entries, run
from spark.output import say
from spark.transforms import coding, compaction

SHOWN: Final = 5
"""Slots that are left as they are of which the reason is told."""


def work(job: Job) -> None:
    """Raises: CorruptBatchError, BrokerSideError, then nothing was freed; NotIntactError."""
    target, topic = job.target, job.topic(ControlKind.SEGMENTS)
    ranges = target.admin.ranges(topic)
    waiting = sum(each.end - each.start for each in ranges.values())
    say(f"segments: {waiting} offsets in {len(ranges)} slots")
    records = io.read_topic(job.session, target.options, topic, ranges)
    keep = {row.partition: row.offset for row in compaction.newest(records).collect()}
    older = {number: Range(ranges[number].start, at) for number, at in keep.items()}
    last = _runs(job, {number: Range(at, at + 1) for number, at in keep.items()})
    segments = _runs(job, older)  # before the archive: what another packer frees is there by then
    archived = _archive(job).persist()
    left = _left(job, segments.unionByName(last), archived)
    segments = compaction.without(segments, left)
    blocks = compaction.pack(segments, compaction.without(archived, left)).persist()
    _print_sizes(blocks)
    target.write(job.topic(ControlKind.ARCHIVE), blocks.withColumnRenamed("slot", "partition"))
    back = compaction.without(_archive(job), left).persist()
    lost = compaction.unpacked(segments, back).count()
    if lost:
        raise CorruptBatchError(f"{lost} runs were not read back; their segments are kept")
    say("archive: read back, complete")
    _free(job, {number: each for number, each in ranges.items() if number not in left}, keep)
    gone = compaction.covered(back).withColumnRenamed("slot", "partition")
    gone = gone.withColumn("value", F.lit(None).cast("binary")).persist()
    target.write(job.topic(ControlKind.ARCHIVE), gone)
    print(f"{gone.count()} blocks removed that a longer one replaced")
    refuse_left(left)


def _runs(job: Job, ranges: Mapping[int, Range]) -> DataFrame:
    """`SEGMENT_RUNS` of these records, read now."""
    topic = job.topic(ControlKind.SEGMENTS)
    records = io.read_topic(job.session, job.target.options, topic, ranges)
    found = compaction.segment_runs(records).persist()
    found.count()
    return found


def _archive(job: Job) -> DataFrame:
    return compaction.archive_runs(job.target.read_on(job.topic(ControlKind.ARCHIVE)))


def _left(job: Job, segments: DataFrame, archived: DataFrame) -> dict[int, str]:
    """The slots that are left as they are, and why."""
    against = compaction.disagreements(segments, archived).groupBy("slot")
    found = against.agg(F.min(F.struct("identity", "target_start")).alias("first")).collect()
    names = _names(job, {bytes(row.first.identity) for row in found})
    left = {
        row.slot: f"segments and archive disagree on what begins at target offset"
        f" {row.first.target_start} of {names[bytes(row.first.identity)]}"
        for row in found
    }
    unread = compaction.problems(segments).unionByName(compaction.problems(archived))
    problems = unread.groupBy("slot").agg(F.min("problem").alias("problem")).collect()
    return left | {row.slot: row.problem for row in problems}


def _names(job: Job, identities: Collection[bytes]) -> dict[bytes, str]:
    """Partitions in the words of the catalog, or in our own where it cannot say."""
    known = {each: coding.parse_identity(each) for each in identities}
    names = {
        each: f"partition {one.partition} of the topic with id {one.source_topic_id}"
        for each, one in known.items()
    }
    if not names:
        return {}
    try:
        entries = catalog_entries(job).where(F.col("identity").isin(list(names))).collect()
    except (BrokerSideError, PySparkException):
        return names  # the slot is to be named in any case
    return names | {bytes(e.identity): f"{e.topic}-{e.partition} over {e.link}" for e in entries}


def _free(job: Job, ranges: Mapping[int, Range], keep: Mapping[int, int]) -> None:
    until = {number: keep.get(number, each.end) for number, each in ranges.items()}
    job.target.admin.free(job.topic(ControlKind.SEGMENTS), until)
    say(f"segments: {sum(until[n] - each.start for n, each in ranges.items())} offsets freed")


def refuse_left(left: Mapping[int, str]) -> None:
    """Raises: NotIntactError with the slots that were left as they are."""
    if not left:
        return
    told = "; ".join(f"slot {number}: {left[number]}" for number in sorted(left)[:SHOWN])
    more = f"; and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    raise NotIntactError(
        f"{len(left)} slots are left as they are, all others are packed. {told}{more}.",
        hint="What a newer release wrote, the job of that release can read.",
    )


def _print_sizes(blocks: DataFrame) -> None:
    size = F.octet_length("key") + F.octet_length("value")
    row = blocks.agg(
        F.count("*").alias("blocks"), F.sum("runs").alias("runs"), F.sum(size).alias("bytes")
    ).collect()[0]
    each = row.bytes / row.runs if row.runs else 0.0
    print(f"{row.runs or 0} runs in {row.blocks} blocks, {row.bytes or 0} bytes, {each:.1f} a run")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spark.jobs.compact_offset_syncs --estate FILE --target ALIAS`."""
    return run("compact_offset_syncs", work, argv)


if __name__ == "__main__":
    sys.exit(main())
