"""How well a link kept its promises over a window, from samples, the catalog and events.

A *partition-minute* is counted from the first minute in which the partition is known (by a sample,
as old as they are kept, or by its entry in the catalog) until the window ends, or until its last
sample when the catalog does not want it copied any more; except where it was paused. One that was
taken out and in again counts in between: samples do not tell that from silence. A sample holds
until the next one, three minutes at most; a minute in which none holds is neither fresh nor
available: silence is never good news. Late and repeated samples change nothing.

    freshness      share of counted partition-minutes whose worst time lag is within the promise
    availability   share of them in which no verdict says that copying stands still
    completeness   copied / (copied + lost)

    copied   source offsets that positions moved over, without those of gaps and as many as records
             were dropped; markers and removed records are among them, because a sample knows
             offsets, not records
    lost     records of the gap ledger; where their number is not provable, all offsets of the gap
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from mirrorfleet.copying.faults import TARGET_LOSSES
from mirrorfleet.offsets.ledger import KINDS
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.progress import FAULTED, PAUSED, STARTING
from mirrorfleet.records.samples import HOLDS_MS
from spark import schemas
from spark.transforms.incarnations import OF_THE_FORMER

MINUTE_MS: Final = 60_000
FRESH_WITHIN_MS: Final = 60_000
SERVING: Final = ("ok", "idle", "catching-up", "behind")
"""Verdicts under which records are copied, or would be if there were any."""
UNBEGUN: Final = (FAULTED, STARTING, PAUSED)
"""States in which a mirror also tells of a partition without a position, as if it stood at 0."""
DROPPED: Final = str(EventKind.RECORDS_DROPPED)
LOSSES: Final = tuple(sorted(map(str, KINDS)))
NOT_PASSED: Final = (*OF_THE_FORMER, *sorted(map(str, TARGET_LOSSES)))
"""Causes of gaps that no position moves over: what the target lost was passed before."""

_TOPIC: Final = ["link", "topic"]
_PARTITION: Final = ["link", "topic", "partition"]


def minutes(
    samples: DataFrame,
    wanted: DataFrame,
    known: DataFrame,
    *,
    start_ms: int,
    end_ms: int,
    fresh_within_ms: int = FRESH_WITHIN_MS,
) -> DataFrame:
    """`SAMPLES`, `CATALOG` and `first_seen` to the counted partition-minutes of [start_ms, end_ms).

    (link, topic, partition, minute_ms, fresh, available, worst_lag_ms)
    """
    before_end = samples.select(schemas.columns(schemas.SAMPLES)).where(F.col("time_ms") < end_ms)
    seen = _seen(_held(before_end, start_ms, end_ms), fresh_within_ms)
    seen_once = known.where(F.col("time_ms") < end_ms).unionByName(
        before_end.select(*_PARTITION, "time_ms")
    )
    expected = _expected(seen_once, wanted, start_ms, end_ms)
    counted = expected.join(seen, on=[*_PARTITION, "minute_ms"], how="left").where(
        ~F.coalesce("paused", F.lit(False))
    )
    return counted.select(
        *_PARTITION,
        "minute_ms",
        F.coalesce("fresh", F.lit(False)).alias("fresh"),
        F.coalesce("available", F.lit(False)).alias("available"),
        "worst_lag_ms",
    )


def _held(samples: DataFrame, start_ms: int, end_ms: int) -> DataFrame:
    """`SAMPLES` with a row for each `minute_ms` of the window in which a sample holds."""
    at = F.col("time_ms")
    following = F.lead(at).over(Window.partitionBy(_PARTITION).orderBy(at))
    until = F.least(following, at + HOLDS_MS, F.lit(end_ms))
    # one that another of the same time replaces still counts for its own minute
    lasting = samples.withColumn("until", F.greatest(until, at + 1)).where(
        F.col("until") > start_ms
    )
    first, last = F.greatest(at, F.lit(start_ms)), F.col("until") - 1
    every = F.sequence(_minute(first), _minute(last), F.lit(MINUTE_MS))
    return lasting.withColumn("minute_ms", F.explode(every))


def _seen(held: DataFrame, fresh_within_ms: int) -> DataFrame:
    """What the samples of a minute say together. A lag that is not known is no small one."""
    in_time = F.coalesce(F.col("lag_ms") <= fresh_within_ms, F.lit(False))
    serving = F.coalesce(F.col("verdict").isin(*SERVING), F.lit(False))
    return held.groupBy(*_PARTITION, "minute_ms").agg(
        F.max("lag_ms").alias("worst_lag_ms"),
        F.bool_and(in_time).alias("fresh"),
        F.bool_and(serving).alias("available"),
        F.bool_and(F.coalesce(F.col("state") == PAUSED, F.lit(False))).alias("paused"),
    )


def first_seen(records: DataFrame) -> DataFrame:
    """`RECORDS` of the samples topic: (link, topic, partition, time_ms) of each one's oldest.

    By key and record time, so that a week of samples is not decoded for it.
    """
    key = F.split(F.col("key").cast("string"), "/")
    named = records.where(F.size(key) == len(_PARTITION)).select(
        key[0].alias("link"),
        key[1].alias("topic"),
        key[2].try_cast("int").alias("partition"),
        F.col("timestamp_ms").alias("time_ms"),
    )
    oldest = named.where(F.col("partition").isNotNull()).groupBy(_PARTITION)
    return oldest.agg(F.min("time_ms").alias("time_ms"))


def _expected(seen: DataFrame, wanted: DataFrame, start_ms: int, end_ms: int) -> DataFrame:
    """Every minute in which a partition should have been seen.

    An entry that was written again after the window says nothing of since when, but that it is
    wanted: what was known in the window is counted on to its end.
    """
    active = wanted.where(F.col("state") == "active")
    since = F.when(F.col("time_ms") < end_ms, F.col("time_ms"))
    known = seen.select(*_PARTITION, "time_ms", F.lit(0).alias("wanted")).unionByName(
        active.select(*_PARTITION, since.alias("time_ms"), F.lit(1).alias("wanted"))
    )
    last = _minute(F.when(F.max("wanted") == 1, F.lit(end_ms - 1)).otherwise(F.max("time_ms")))
    spans = known.groupBy(_PARTITION).agg(
        F.min("time_ms").alias("since_ms"),
        _minute(F.greatest(F.min("time_ms"), F.lit(start_ms))).alias("first"),
        last.alias("last"),
    )
    every = F.explode(F.sequence("first", "last", F.lit(MINUTE_MS)))
    in_it = F.col("since_ms").isNotNull() & (F.col("last") >= F.col("first"))
    return spans.where(in_it).select(*_PARTITION, every.alias("minute_ms"))


def _minute(time_ms: Column) -> Column:
    return (F.floor(time_ms / MINUTE_MS) * MINUTE_MS).cast("long")


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
    """`minutes`, `SAMPLES` and `EVENTS` to one row a link and topic: `SLO`."""
    inside = (F.col("time_ms") >= start_ms) & (F.col("time_ms") < end_ms)
    happened = told_once(events).where(inside)
    kept = counted.groupBy(_TOPIC).agg(
        F.countDistinct("partition").alias("partitions"),
        F.count("*").alias("minutes"),
        F.sum(F.col("fresh").cast("long")).alias("fresh_minutes"),
        F.sum(F.col("available").cast("long")).alias("available_minutes"),
        F.max("worst_lag_ms").alias("worst_lag_ms"),
    )
    sums = (
        kept.join(passed(samples).where(inside).groupBy(_TOPIC).agg(_sum("passed")), _TOPIC, "full")
        .join(losses(happened), on=_TOPIC, how="full")
        .join(faults(happened), on=_TOPIC, how="full")
        .withColumns({"window_start_ms": F.lit(start_ms), "window_end_ms": F.lit(end_ms)})
        .fillna(0, _COUNTS)
        .withColumn("copied", F.greatest(F.col("passed") - F.col("offsets"), F.lit(0)))
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


def passed(samples: DataFrame) -> DataFrame:
    """How far each position moved since the sample before: (link, topic, time_ms, passed).

    A step back passes nothing, whether records are to be copied again or the topic was made
    again: of the latter, what was copied before its first sample is not counted. Where no worker
    was heard (no state) the sample's 0 is no position; nor is it one, perhaps, of a partition that
    waits for its first position or has lost it: that would count all before as copied.
    """
    at = F.col("next_source")
    before = F.lag(at).over(Window.partitionBy(_PARTITION).orderBy("time_ms", "next_source"))
    moved = F.greatest(F.coalesce(at - before, F.lit(0)), F.lit(0))
    unbegun = (at == 0) & F.col("state").isin(*UNBEGUN)
    known = samples.where(at.isNotNull() & (F.col("state") != "") & ~unbegun)
    return known.select(*_TOPIC, "time_ms", moved.alias("passed"))


def told_once(events: DataFrame) -> DataFrame:
    """`EVENTS`, each once, at its first time: one that was answered too late is written again.

    Its writer's time is the same then. The broker dates each copy, maybe into another window.
    """
    said = [name for name in schemas.columns(schemas.EVENTS) if name != "time_ms"]
    first = events.groupBy(said).agg(F.min("time_ms").alias("time_ms"))
    return first.select(schemas.columns(schemas.EVENTS))


def losses(events: DataFrame) -> DataFrame:
    """The gap ledger of each topic: (link, topic, lost, offsets that were passed uncopied)."""
    span = F.col("end") - F.col("first")
    lost = F.coalesce("records", span)
    # between the drops of a range some were copied
    elsewhere = F.coalesce(F.col("cause").isin(*NOT_PASSED), F.lit(False))
    uncopied = F.when(elsewhere, 0).when(F.col("kind") == DROPPED, lost).otherwise(span)
    gaps = _once(events).withColumns({"lost": lost, "offsets": uncopied})
    return gaps.groupBy(_TOPIC).agg(_sum("lost"), _sum("offsets"))


def ledger(events: DataFrame) -> DataFrame:
    """Source offsets [first, end) of what is known not to be copied, each range once: `LEDGER`."""
    return _once(events).select(schemas.columns(schemas.LEDGER))


def _once(events: DataFrame) -> DataFrame:
    """The gap ledger with its causes: an event may be written twice, its range is what it says."""
    named = F.col("topic").isNotNull() & F.col("first").isNotNull() & F.col("end").isNotNull()
    gaps = events.where(F.col("kind").isin(*LOSSES) & named)
    ranges = gaps.groupBy(*_PARTITION, "first", "end", "kind")
    return ranges.agg(F.min("records").alias("records"), F.max("cause").alias("cause"))


def faults(events: DataFrame) -> DataFrame:
    """How often a partition of each topic stood still, of `told_once`: (link, topic, faults)."""
    faulted = events.where(F.col("kind") == str(EventKind.PARTITION_FAULTED))
    return faulted.groupBy(_TOPIC).agg(F.count("*").alias("faults"))


_COUNTS: Final = [
    "partitions",
    "minutes",
    "fresh_minutes",
    "available_minutes",
    "passed",
    "offsets",
    "lost",
    "faults",
]


def _sum(name: str) -> Column:
    return F.sum(name).alias(name)


def _share(part: str, whole: str) -> Column:
    return F.try_divide(F.col(part), F.col(whole))
