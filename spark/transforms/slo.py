"""How well a link kept its promises over a window, from samples and events.

A *partition-minute* is counted from the first minute in which the partition was seen until the
window ends, except where it was paused. One without any sample is neither fresh nor available:
silence is never good news. Late and repeated samples change nothing, because a minute takes its
worst sample, and counters their ends.

    freshness      share of counted partition-minutes whose worst lag is within the promise
    availability   share of them in which every sample says live or catch-up
    completeness   copied / (copied + lost): lost are the records of the gap ledger
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from mirrorfleet.records.events import EventKind
from spark import schemas

MINUTE_MS: Final = 60_000
FRESH_WITHIN_MS: Final = 60_000
SERVING: Final = ("live", "catch-up")
PAUSED: Final = "paused"
LOSSES: Final = (str(EventKind.GAP), str(EventKind.RECORDS_DROPPED))

_TOPIC: Final = ["link", "topic"]
_PARTITION: Final = ["link", "topic", "partition"]


def minutes(
    samples: DataFrame, *, start_ms: int, end_ms: int, fresh_within_ms: int = FRESH_WITHIN_MS
) -> DataFrame:
    """Counted partition-minutes of [start_ms, end_ms): their `fresh`, `available` and worst lag."""
    inside = samples.select(schemas.columns(schemas.SAMPLES)).where(
        (F.col("time_ms") >= start_ms) & (F.col("time_ms") < end_ms)
    )
    minute = F.floor(F.col("time_ms") / MINUTE_MS) * MINUTE_MS
    serving = F.col("state").isin(*SERVING)
    seen = (
        inside.withColumn("minute_ms", minute.cast("long"))
        .groupBy(*_PARTITION, "minute_ms")
        .agg(
            F.max("lag_ms").alias("worst_lag_ms"),
            F.coalesce(F.bool_and(F.col("lag_ms") <= fresh_within_ms), F.lit(False)).alias("fresh"),
            F.bool_or(F.col("lag_ms").isNull()).alias("unknown"),
            F.coalesce(F.bool_and(serving), F.lit(False)).alias("available"),
            F.coalesce(F.bool_and(F.col("state") == PAUSED), F.lit(False)).alias("paused"),
        )
    )
    last = (end_ms - 1) // MINUTE_MS * MINUTE_MS
    expected = (
        seen.groupBy(_PARTITION)
        .agg(F.min("minute_ms").alias("first"))
        .select(
            *_PARTITION,
            F.explode(F.sequence("first", F.lit(last), F.lit(MINUTE_MS))).alias("minute_ms"),
        )
    )
    counted = expected.join(seen, on=[*_PARTITION, "minute_ms"], how="left").where(
        ~F.coalesce("paused", F.lit(False))
    )
    return counted.select(
        *_PARTITION,
        "minute_ms",
        F.coalesce(F.col("fresh") & ~F.col("unknown"), F.lit(False)).alias("fresh"),
        F.coalesce("available", F.lit(False)).alias("available"),
        "worst_lag_ms",
    )


def series(counted: DataFrame) -> DataFrame:
    """`minutes` summed over a topic's partitions: `SERIES`."""
    summed = counted.groupBy(*_TOPIC, "minute_ms").agg(
        F.count("*").alias("partitions"),
        F.sum(F.col("fresh").cast("long")).alias("fresh"),
        F.sum(F.col("available").cast("long")).alias("available"),
        F.max("worst_lag_ms").alias("worst_lag_ms"),
    )
    return summed.select(schemas.columns(schemas.SERIES))


def report(
    counted: DataFrame, samples: DataFrame, events: DataFrame, *, start_ms: int, end_ms: int
) -> DataFrame:
    """One row a link and topic: `SLO`."""
    inside = (F.col("time_ms") >= start_ms) & (F.col("time_ms") < end_ms)
    kept = counted.groupBy(_TOPIC).agg(
        F.countDistinct("partition").alias("partitions"),
        F.count("*").alias("minutes"),
        F.sum(F.col("fresh").cast("long")).alias("fresh_minutes"),
        F.sum(F.col("available").cast("long")).alias("available_minutes"),
        F.max("worst_lag_ms").alias("worst_lag_ms"),
    )
    sums = (
        kept.join(copied(samples.where(inside)), on=_TOPIC, how="full")
        .join(lost(events.where(inside)), on=_TOPIC, how="full")
        .withColumns({"window_start_ms": F.lit(start_ms), "window_end_ms": F.lit(end_ms)})
        .fillna(0, _COUNTS)
    )
    shares = sums.withColumns(
        {
            "freshness": _share("fresh_minutes", "minutes"),
            "availability": _share("available_minutes", "minutes"),
            "completeness": F.try_divide("copied", F.col("copied") + F.col("lost")),
        }
    )
    typed = [F.col(field.name).cast(field.dataType) for field in schemas.SLO.fields]
    return shares.select(typed)


def copied(samples: DataFrame) -> DataFrame:
    """Records copied of each topic, by the counters: (link, topic, copied)."""
    grown = samples.groupBy(*_TOPIC, "identity").agg(
        (F.max("records") - F.min("records")).alias("copied")
    )
    return grown.groupBy(_TOPIC).agg(F.sum("copied").alias("copied"))


def lost(events: DataFrame) -> DataFrame:
    """Records in the gap ledger; where their number is not provable, every offset counts."""
    ledger = events.where(F.col("kind").isin(*LOSSES) & F.col("topic").isNotNull())
    records = F.coalesce("records", F.col("end") - F.col("first"), F.lit(0))
    # an event may be written twice; its range is what it says, once
    once = ledger.select(*_PARTITION, "first", "end", records.alias("records")).distinct()
    return once.groupBy(_TOPIC).agg(F.sum("records").alias("lost"))


def with_links(progress: DataFrame, catalog: DataFrame) -> DataFrame:
    """`PROGRESS` to `SAMPLES`: the catalog says whose link an identity is."""
    links = catalog.select("identity", "link")
    joined = progress.join(F.broadcast(links), on="identity", how="inner")
    return joined.select(schemas.columns(schemas.SAMPLES))


_COUNTS: Final = ["partitions", "minutes", "fresh_minutes", "available_minutes", "copied", "lost"]


def _share(part: str, whole: str) -> Column:
    return F.try_divide(F.col(part), F.col(whole))
