"""Which of the records that the map leaves out the gap ledger answers for.

    gap              for every record of its range
    records-dropped  for as many as it tells: where drops are many, what is near becomes one range,
                     and what was copied lies in between

Ranges of drops overlap where one transaction dropped for two causes; their numbers are added up.
Which records of a range were dropped is not told, except that one stands at each of its ends.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark.transforms.slo import DROPPED

_RECORD = ["partition", "source_offset", "expected"]


def explained(missing: DataFrame, ledger: DataFrame) -> DataFrame:
    """Each record of `missing` (partition, source_offset, expected), and what `LEDGER` says of it.

    (partition, source_offset, expected, explained, surplus) where `surplus` is what to say of one
    that is not explained because the ledger tells of too few. What the map gives a place the ledger
    does not explain.
    """
    told = _answered(missing, ledger)
    nth = F.row_number().over(
        Window.partitionBy("partition", "whole", "counted.first").orderBy(
            F.desc_nulls_last("at_end"), "source_offset"
        )
    )
    enough = F.coalesce(nth <= F.col("counted.told"), F.lit(False))
    return told.select(
        *_RECORD, (F.col("whole") | enough).alias("explained"), _surplus().alias("surplus")
    )


def _answered(missing: DataFrame, ledger: DataFrame) -> DataFrame:
    """Records with `whole`, whether in a gap; `counted`, the drops around it; `at_end` of some.

    Ranges may be as many as records, so one walk over both instead of each with each: of counted
    ranges, which do not overlap, only the last that began can reach a record; of gaps the one that
    reaches furthest.
    """
    dropped = (F.col("kind") == DROPPED) & F.col("records").isNotNull()
    gaps = ledger.where(~dropped).select(
        "partition", F.col("first").alias("at"), F.col("end").alias("gap_end")
    )
    records = missing.select(*_RECORD, F.col("source_offset").alias("at"))
    events = (
        gaps.unionByName(_counted(ledger.where(dropped)), allowMissingColumns=True)
        .withColumn("is_record", F.lit(0))
        .unionByName(records.withColumn("is_record", F.lit(1)), allowMissingColumns=True)
    )
    so_far = (
        Window.partitionBy("partition")
        .orderBy("at", "is_record")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    reached = events.withColumns(
        {
            "gap_end": F.max("gap_end").over(so_far),
            "counted": F.last("counted", ignorenulls=True).over(so_far),
        }
    ).where("is_record = 1")
    left_out = F.col("expected").isNull()
    in_gap = left_out & F.coalesce(F.col("gap_end") > F.col("at"), F.lit(False))
    in_counted = left_out & (F.col("at") < F.col("counted.end"))
    told = reached.select(
        *_RECORD, in_gap.alias("whole"), F.when(in_counted, F.col("counted")).alias("counted")
    )
    return told.withColumn("at_end", F.array_contains("counted.ends", F.col("source_offset")))


def _surplus() -> Column:
    said = F.format_string(
        "more than the %d that the gap ledger tells of in %d..%d",
        F.col("counted.told"),
        F.col("counted.first"),
        F.col("counted.end") - 1,
    )
    return F.when(F.col("counted").isNotNull(), said)


def _counted(drops: DataFrame) -> DataFrame:
    """Ranges that overlap as one, with the number of all and the ends of each."""
    by_first = Window.partitionBy("partition").orderBy("first", "end")
    before = F.max("end").over(by_first.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(F.col("first") < before, 0).otherwise(1)
    islands = drops.withColumn("begins", begins).withColumn(
        "island", F.sum("begins").over(by_first)
    )
    joined = islands.groupBy("partition", "island").agg(
        F.min("first").alias("first"),
        F.max("end").alias("end"),
        F.sum("records").alias("told"),
        F.array_union(F.collect_set("first"), F.collect_set(F.col("end") - 1)).alias("ends"),
    )
    counted = F.struct("first", "end", "told", "ends")
    return joined.select("partition", F.col("first").alias("at"), counted.alias("counted"))
