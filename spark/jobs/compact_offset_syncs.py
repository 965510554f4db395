"""Pack the offset map: segments into blocks of the archive; then free the segments.

    read -> pack -> write -> read back -> free -> remove blocks that a longer one replaced

The newest segment of each slot stays (`mapping.packing` says why). Killed anywhere and run again it
ends in the same (`transforms.compaction`). One task a slot and partition; the busiest partition
bounds the time, its runs (not its records) count.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.records.topics import ControlKind
from spark import io
from spark.jobs.running import Job, refuse_problems, run
from spark.output import say
from spark.transforms import compaction


def work(job: Job) -> None:
    """Raises: RefusedError, CorruptBatchError, BrokerSideError; then nothing was freed."""
    target, topic = job.target, job.topic(ControlKind.SEGMENTS)
    ranges = target.admin.ranges(topic)
    waiting = sum(each.end - each.start for each in ranges.values())
    say(f"segments: {waiting} offsets in {len(ranges)} slots")
    records = io.read_topic(job.session, target.options, topic, ranges)
    keep = {row.partition: row.offset for row in compaction.newest(records).collect()}
    segments = compaction.segment_runs(records).persist()
    segments.count()  # before the archive: what another packer frees meanwhile is there by then
    archived = _archive(job).persist()
    refuse_problems(compaction.problems(segments).union(compaction.problems(archived)))
    _refuse_disagreement(segments, archived)
    blocks = compaction.pack(segments, archived).persist()
    _print_sizes(blocks)
    target.write(job.topic(ControlKind.ARCHIVE), blocks.withColumnRenamed("slot", "partition"))
    back = _archive(job).persist()
    lost = compaction.unpacked(segments, back).count()
    if lost:
        raise CorruptBatchError(f"{lost} runs were not read back; their segments are kept")
    say("archive: read back, complete")
    until = {number: keep.get(number, each.end) for number, each in ranges.items()}
    target.admin.free(topic, until)
    say(f"segments: {sum(until[n] - each.start for n, each in ranges.items())} offsets freed")
    gone = compaction.covered(back).withColumnRenamed("slot", "partition")
    gone = gone.withColumn("value", F.lit(None).cast("binary")).persist()
    target.write(job.topic(ControlKind.ARCHIVE), gone)
    print(f"{gone.count()} blocks removed that a longer one replaced")


def _archive(job: Job) -> DataFrame:
    return compaction.archive_runs(job.target.read(job.topic(ControlKind.ARCHIVE)))


def _refuse_disagreement(segments: DataFrame, archived: DataFrame) -> None:
    for row in compaction.disagreements(segments, archived).limit(1).collect():
        raise CorruptBatchError(
            f"segments and archive disagree on what begins at target offset {row.target_start}"
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
