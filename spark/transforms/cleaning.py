"""What a log cleaner may have removed from one of two compacted topics, and not yet from the other.

Each cluster cleans when it likes: a record that has a later one of its key, and a tombstone when
nothing older of its key is left. It changes none. So a record that one side lacks is not missed

    when a later one of its key stands over there, or over here and is in the map: any other was
    never on both sides
    when it is a tombstone, unless an older one of its key still stands over there

and it is missed in any case when another record stands in its place.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def uncleaned(
    rest: DataFrame, read: tuple[DataFrame, DataFrame], mapped: DataFrame, *, target: bool
) -> DataFrame:
    """`rest`, pairs of which one side may be null, without what a cleaner may have removed.

    `read` is all of the source and of the target, also what is not compared: cleaners act on all.
    `target` is whether the target is compacted, too; if not, all that it lacks is missed.
    """
    ours, theirs = read
    paired = rest.where(F.col("source_offset").isNotNull() & F.col("target_offset").isNotNull())
    only_source = rest.where(F.col("target_offset").isNull())
    if target:
        here, there = _here(ours, "source", mapped), _there(theirs, "target")
        only_source = _kept(only_source, "source", "expected", here, there)
    back = mapped.withColumnRenamed("source_offset", "belongs")
    only_target = rest.where(F.col("source_offset").isNull()).join(
        back, on=["partition", "target_offset"], how="left"
    )
    here, there = _here(theirs, "target", mapped), _there(ours, "source")
    only_target = _kept(only_target, "target", "belongs", here, there).drop("belongs")
    return paired.unionByName(only_source).unionByName(only_target)


def _here(side: DataFrame, name: str, mapped: DataFrame) -> DataFrame:
    """Where the last record of each key stands on the side that has the record."""
    known = side.join(mapped, on=["partition", f"{name}_offset"], how="left_semi")
    return _by_key(known, name, F.max(f"{name}_offset").alias("last_here"))


def _there(side: DataFrame, name: str) -> DataFrame:
    """Where the first and the last record of each key stand on the side that lacks the record."""
    at = F.col(f"{name}_offset")
    return _by_key(side, name, F.min(at).alias("first_there"), F.max(at).alias("last_there"))


def _by_key(side: DataFrame, name: str, *ends: Column) -> DataFrame:
    return side.groupBy("partition", F.col(f"{name}_key_mark").alias("key_mark")).agg(*ends)


def _null_mark() -> Column:
    """The mark of a key or value that is null: hashes leave nulls out."""
    return F.xxhash64(F.lit(True))


def _kept(only: DataFrame, name: str, other: str, here: DataFrame, there: DataFrame) -> DataFrame:
    """Records of one side that no cleaner took from the other, where they belong at `other`."""
    known = only.withColumn("key_mark", F.col(f"{name}_key_mark"))
    for stands in (here, there):
        known = known.join(stands, on=["partition", "key_mark"], how="left")
    belongs = F.col(other)
    superseded = (F.col("last_there") > belongs) | (F.col("last_here") > F.col(f"{name}_offset"))
    older_is_there = F.coalesce(F.col("first_there") < belongs, F.lit(False))
    expired = (F.col(f"{name}_value_mark") == _null_mark()) & ~older_is_there
    cleaned = (F.col("key_mark") != _null_mark()) & belongs.isNotNull() & (superseded | expired)
    return known.where(~F.coalesce(cleaned, F.lit(False))).drop(
        "key_mark", "last_here", "first_there", "last_there"
    )
