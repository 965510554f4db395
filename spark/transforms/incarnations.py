"""Which incarnation of each partition is copied now, and which events speak of it.

An offset means something else in another incarnation, so what the ledger says of a former one
explains nothing in this one. An event names no incarnation: it is known by when it was written,
and by its cause.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mirrorfleet.offsets import ledger
from mirrorfleet.records.catalog import CatalogState
from spark import schemas

OF_THE_FORMER: Final = tuple(sorted(map(str, ledger.OF_THE_FORMER)))


def current(entries: DataFrame) -> DataFrame:
    """`CATALOG` of one topic of a link to `INCARNATIONS`: one row a partition that is copied."""
    removed = F.col("state") == str(CatalogState.REMOVED)
    former = (
        Window.partitionBy("partition", "target_topic")
        .orderBy("incarnation")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    since = F.max(F.when(removed, F.col("time_ms"))).over(former)
    newest = F.row_number().over(
        Window.partitionBy("partition").orderBy(F.desc("incarnation"), "target_topic")
    )
    copied = entries.withColumn("since_ms", since).where(~removed).withColumn("newest", newest)
    return copied.where("newest = 1").select(schemas.columns(schemas.INCARNATIONS))


def told(events: DataFrame, incarnations: DataFrame) -> DataFrame:
    """`EVENTS` of one topic of a link: those that speak of the incarnations that are copied now.

    By the clocks of the target's brokers, which date the entry that removes the former one and
    each event. Only where the events topic does not stamp its records, by that of the worker.
    """
    since = incarnations.select("partition", "since_ms")
    lately = F.col("since_ms").isNull() | (F.col("time_ms") >= F.col("since_ms"))
    of_this = F.coalesce(~F.col("cause").isin(*OF_THE_FORMER), F.lit(True))
    known = events.join(F.broadcast(since), on="partition", how="inner").where(lately & of_this)
    return known.select(schemas.columns(schemas.EVENTS))
