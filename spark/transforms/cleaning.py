"""What a log cleaner may have removed from one of two compacted topics, and not yet from the other.

Each cluster cleans when it likes: a record that has a later one of its key, and a tombstone when
nothing older of its key is left. It changes none. So a record that one side lacks is not missed

    when a later one of its key stands over there, or over here and is in the map: any other was
    never on both sides
    when it is a tombstone, unless an older one of its key still stands over there

and it is missed in any case when another record stands in its place.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_SIDES: Final = ("source", "target")


def uncleaned(
    rest: DataFrame, read: tuple[DataFrame, DataFrame], mapped: DataFrame, *, target: bool
) -> DataFrame:
    """`rest`, pairs of which one side may be null, without what a cleaner may have removed.

    `read` is all of the source and of the target, also what is not compared: cleaners act on all.
    `target` is whether the target is compacted, too; if not, all that it lacks is missed.
    """
    back = mapped.withColumnRenamed("source_offset", "belongs")
    known = rest.join(back, on=["partition", "target_offset"], how="left").withColumn(
        "key_mark", F.coalesce("source_key_mark", "target_key_mark")
    )
    keys = _keys(read, mapped)
    ends = [name for name in keys.columns if name not in {"partition", "key_mark"}]
    known = known.join(keys, on=["partition", "key_mark"], how="left")
    cleaned = F.col("source_offset").isNull() & _excused("target", "source", "belongs")
    if target:
        cleaned |= F.col("target_offset").isNull() & _excused("source", "target", "expected")
    return known.where(~F.coalesce(cleaned, F.lit(False))).drop("belongs", "key_mark", *ends)


def _keys(read: tuple[DataFrame, DataFrame], mapped: DataFrame) -> DataFrame:
    """Where the first, the last, and the last record in the map of each key stand on each side."""
    sides = [
        side.join(mapped, on=["partition", f"{name}_offset"], how="left").select(
            "partition",
            F.col(f"{name}_key_mark").alias("key_mark"),
            F.col(f"{name}_offset").alias(name),
            F.when(F.col(f"{other}_offset").isNotNull(), F.col(f"{name}_offset")).alias(
                f"{name}_mapped"
            ),
        )
        for side, name, other in zip(read, _SIDES, reversed(_SIDES), strict=True)
    ]
    both = sides[0].unionByName(sides[1], allowMissingColumns=True)
    ends = [
        end
        for name in _SIDES
        for end in (
            F.min(name).alias(f"{name}_first"),
            F.max(name).alias(f"{name}_last"),
            F.max(f"{name}_mapped").alias(f"{name}_last_mapped"),
        )
    ]
    return both.groupBy("partition", "key_mark").agg(*ends)


def _null_mark() -> Column:
    """The mark of a key or value that is null: hashes leave nulls out."""
    return F.xxhash64(F.lit(True))


def _excused(has: str, lacks: str, belongs: str) -> Column:
    """Of a record of one side: whether the other one's cleaner may have taken it."""
    place = F.col(belongs)
    superseded = (F.col(f"{lacks}_last") > place) | (
        F.col(f"{has}_last_mapped") > F.col(f"{has}_offset")
    )
    older_is_there = F.coalesce(F.col(f"{lacks}_first") < place, F.lit(False))
    expired = (F.col(f"{has}_value_mark") == _null_mark()) & ~older_is_there
    keyed = F.col("key_mark") != _null_mark()
    return keyed & place.isNotNull() & (superseded | expired)
