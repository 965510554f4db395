"""Segments to packed blocks: DataFrames in, DataFrames out.

    archive  [ full ][ full ][ open ]           segments   r r r r r
    packed                   [ open + r r r ... full ][ open ]

A block is named by what it covers, never changed, and joined by the reader with all others. So a
run that was killed leaves nothing wrong: what it wrote is found again and is not new any more; an
open block that a longer one replaced is covered by it and only then removed.

Skew: one busy partition of a topic is one task here; its rows are runs, not records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mirrorfleet.offsets.packing import FULL, Full
from spark import schemas
from spark.transforms import coding

_RUN_KEY: Final = ["slot", "identity", "target_start", "target_end", "source_start", "source_end"]


def segment_runs(segments: DataFrame) -> DataFrame:
    """Records of the segments topic to `SEGMENT_RUNS`."""
    records = segments.select("partition", "offset", "value")
    runs = records.mapInArrow(coding.decode_segments, schemas.SEGMENT_RUNS)
    return runs.select(schemas.columns(schemas.SEGMENT_RUNS))


def newest(segments: DataFrame) -> DataFrame:
    """The last record of each slot: (partition, offset)."""
    return segments.groupBy("partition").agg(F.max("offset").alias("offset"))


def archive_runs(archive: DataFrame) -> DataFrame:
    """Records of the archive topic to `ARCHIVE_RUNS`: the newest of each key, unless removed."""
    newest = archive.groupBy("partition", "key").agg(
        F.max(F.struct("offset", "value")).alias("newest")
    )
    live = newest.select("partition", "newest.offset", "key", "newest.value")
    live = live.where(F.col("value").isNotNull())
    runs = live.mapInArrow(coding.decode_archive, schemas.ARCHIVE_RUNS)
    return runs.select(schemas.columns(schemas.ARCHIVE_RUNS))


def problems(runs: DataFrame) -> DataFrame:
    """What could not be read, as (slot, problem)."""
    return runs.where(F.col("problem").isNotNull()).select("slot", "problem")


def without(runs: DataFrame, slots: Collection[int]) -> DataFrame:
    """`SEGMENT_RUNS` or `ARCHIVE_RUNS` of all other slots."""
    return runs.where(~F.col("slot").isin(list(slots)))


def disagreements(segments: DataFrame, archived: DataFrame) -> DataFrame:
    """Where the first run begins that contradicts the one before it: (slot, identity, target_start)

    of each slot that has runs of the partition: which run of them is wrong is not known. Runs rise
    on both sides. One that does not is of a transaction that was aborted: a broker may call it
    committed to a consumer (`wire/aborted.py`). Packed it would stay for ever.
    """
    said = ["identity", "target_start", "target_end", "source_start", "source_end"]
    columns = ["slot", *said]
    both = segments.select(columns).unionByName(archived.select(columns))
    both = both.where(F.col("identity").isNotNull())
    runs = both.select(said).distinct()
    by_target = Window.partitionBy("identity").orderBy("target_start", "target_end")
    source_before = F.lag("source_end").over(by_target)
    target_before = F.lag("target_end").over(by_target)
    rises = (F.col("source_start") >= source_before) & (F.col("target_start") >= target_before)
    known = runs.withColumn("rises", F.coalesce(rises, F.lit(True)))
    first = (
        known.where(~F.col("rises"))
        .groupBy("identity")
        .agg(F.min("target_start").alias("target_start"))
    )
    homes = both.select("slot", "identity").distinct()
    return homes.join(first, on="identity", how="inner").select("slot", "identity", "target_start")


def new_runs(segments: DataFrame, archived: DataFrame) -> DataFrame:
    """Runs of segments that no block of their slot holds, each once: slot and a run's columns."""
    wanted = segments.where(F.col("problem").isNull())
    rest = wanted.join(archived.select(_RUN_KEY), on=_RUN_KEY, how="left_anti")
    return _once(rest).select("slot", *schemas.RUN_COLUMNS)


def pack(segments: DataFrame, archived: DataFrame, full: Full = FULL) -> DataFrame:
    """`SEGMENT_RUNS` and `ARCHIVE_RUNS` to the `BLOCKS` to write."""
    new = new_runs(segments, archived).withColumn("origin", F.lit("new"))
    gone = covered(archived).select("slot", F.col("key").alias("block"))
    live = archived.join(gone, on=["slot", "block"], how="left_anti")
    room = (F.col("block_runs") < full.runs) & (F.col("weight") < full.weight)
    state = F.when(room, "open").otherwise("closed")
    known = live.where(F.col("problem").isNull()).withColumn("origin", state)
    touched = new.select("slot", "identity").distinct()
    known = known.join(touched, on=["slot", "identity"], how="left_semi")
    columns = schemas.columns(schemas.PACK_RUNS)
    sorted_runs = (
        new.select(columns)
        .unionByName(_once(known, "origin").select(columns))
        .repartition("slot", "identity")
        .sortWithinPartitions("slot", "identity", "target_start", "source_start")
    )
    blocks = sorted_runs.mapInArrow(coding.pack_blocks(full), schemas.BLOCKS)
    return blocks.select(schemas.columns(schemas.BLOCKS))


def unpacked(segments: DataFrame, archived: DataFrame) -> DataFrame:
    """Runs of segments that were read back from no block: nothing may be freed while there are."""
    return new_runs(segments, archived).select("slot", *schemas.RUN_COLUMNS)


def covered(archived: DataFrame) -> DataFrame:
    """Blocks whose every run is in one longer block of their slot: (slot, key). They may go."""
    blocks = archived.where(F.col("problem").isNull())
    mine = blocks.select("block", "block_runs", *_RUN_KEY)
    others = blocks.select(
        F.col("block").alias("other"), F.col("block_runs").alias("other_runs"), *_RUN_KEY
    )
    shared = (
        mine.join(others, on=_RUN_KEY, how="inner")
        .where("other_runs > block_runs")
        .groupBy("slot", "block", "block_runs", "other")
        .agg(F.count("*").alias("shared"))
    )
    inside = shared.where("shared = block_runs")
    return inside.select("slot", F.col("block").alias("key")).distinct()


def _once(runs: DataFrame, *least: str) -> DataFrame:
    """Each run of a slot once; of the columns `least` the least value."""
    others = [name for name in schemas.RUN_COLUMNS if name not in _RUN_KEY]
    return runs.groupBy(_RUN_KEY).agg(
        *(F.first(name).alias(name) for name in others),
        *(F.min(name).alias(name) for name in least),
    )
