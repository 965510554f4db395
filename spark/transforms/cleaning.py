"""What a log cleaner may have removed from one of two compacted topics, and not yet from the other.

Each cluster cleans when it likes: a record that has a later one of its key, and a tombstone.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def uncleaned(
    rest_source: DataFrame,
    rest_target: DataFrame,
    mapped: DataFrame,
    ours: DataFrame,
    theirs: DataFrame,
) -> tuple[DataFrame, DataFrame]:
    """What is left of both sides, without what a cleaner may have removed from the other one.

    `rest_source` and `rest_target` are what `integrity` could not pair of `ours` and `theirs`.
    """
    last = _last(ours, "source").join(
        _last(theirs, "target"), on=["partition", "key_mark"], how="full"
    )
    back = mapped.withColumnRenamed("source_offset", "belongs")
    return (
        _kept(rest_source, last, "source", "source_offset", "expected"),
        _kept(
            rest_target.join(back, on=["partition", "target_offset"], how="left"),
            last,
            "target",
            "belongs",
            "target_offset",
        ).drop("belongs"),
    )


def _last(side: DataFrame, name: str) -> DataFrame:
    """Where the last record of each key stands."""
    key_mark = F.col(f"{name}_key_mark").alias("key_mark")
    return side.groupBy("partition", key_mark).agg(F.max(f"{name}_offset").alias(f"last_{name}"))


def _null_mark() -> Column:
    """The mark of a key or value that is null: hashes leave nulls out."""
    return F.xxhash64(F.lit(True))


def _kept(rest: DataFrame, last: DataFrame, name: str, source: str, target: str) -> DataFrame:
    """Records that no cleaner removes: without a key, the last of it, or not in the map at all."""
    known = rest.withColumn("key_mark", F.col(f"{name}_key_mark"))
    known = known.join(last, on=["partition", "key_mark"], how="left")
    superseded = (F.col("last_source") > F.col(source)) | (F.col("last_target") > F.col(target))
    tombstone = F.col(f"{name}_value_mark") == _null_mark()
    cleaned = (
        (F.col("key_mark") != _null_mark())
        & F.col(source).isNotNull()
        & F.col(target).isNotNull()
        & (superseded | tombstone)
    )
    return known.where(~F.coalesce(cleaned, F.lit(False))).drop(
        "key_mark", "last_source", "last_target"
    )
