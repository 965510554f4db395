"""Which of the records that the map leaves out the gap ledger answers for.

    gap              for every record of its range
    records-dropped  for as many as it tells: where drops are many, what is near becomes one range,
                     and what was copied lies in between

Ranges of drops overlap where one transaction dropped for two causes; their numbers are added up.
Which records of a range were dropped is not told, except that one stands at each of its ends.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark.transforms.slo import DROPPED

_RECORD = ["partition", "source_offset", "expected"]


def explained(missing: DataFrame, ledger: DataFrame) -> DataFrame:
    """Each record of `missing` (partition, source_offset, expected) once, and what `LEDGER` says.

    (partition, source_offset, expected, explained, surplus) where `surplus` is what to say of one
    that is not explained because the ledger tells of too few. What the map gives a place the ledger
    does not explain.
    """
    dropped = (F.col("kind") == DROPPED) & F.col("records").isNotNull()
    ranges = _whole(ledger.where(~dropped)).unionByName(
        _counted(ledger.where(dropped)), allowMissingColumns=True
    )
    left_out = (
        (F.col("of") == F.col("partition"))
        & F.col("expected").isNull()
        & F.col("source_offset").between(F.col("first"), F.col("end") - 1)
    )
    told = (
        missing.join(F.broadcast(ranges), on=left_out, how="left")
        .groupBy(_RECORD)
        .agg(
            F.coalesce(F.bool_or("whole"), F.lit(False)).alias("whole"),
            # a record is in one counted range at most
            F.max("told").alias("told"),
            F.max("surplus").alias("surplus"),
            F.bool_or(F.array_contains("ends", F.col("source_offset"))).alias("at_end"),
        )
    )
    nth = F.row_number().over(
        Window.partitionBy("partition", "whole", "surplus").orderBy(
            F.desc_nulls_last("at_end"), "source_offset"
        )
    )
    enough = F.coalesce(nth <= F.col("told"), F.lit(False))
    return told.select(*_RECORD, (F.col("whole") | enough).alias("explained"), "surplus")


def _whole(gaps: DataFrame) -> DataFrame:
    return gaps.select(F.col("partition").alias("of"), "first", "end", F.lit(True).alias("whole"))


def _counted(drops: DataFrame) -> DataFrame:
    """Ranges that overlap as one, with the number of all and the ends of each."""
    by_first = Window.partitionBy("partition").orderBy("first", "end")
    before = F.max("end").over(by_first.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(F.col("first") < before, 0).otherwise(1)
    islands = drops.withColumn("begins", begins).withColumn(
        "island", F.sum("begins").over(by_first)
    )
    joined = islands.groupBy(F.col("partition").alias("of"), "island").agg(
        F.min("first").alias("first"),
        F.max("end").alias("end"),
        F.sum("records").alias("told"),
        F.array_union(F.collect_set("first"), F.collect_set(F.col("end") - 1)).alias("ends"),
    )
    surplus = F.format_string(
        "more than the %d that the gap ledger tells of in %d..%d",
        F.col("told"),
        F.col("first"),
        F.col("end") - 1,
    )
    return joined.drop("island").withColumn("surplus", surplus)
