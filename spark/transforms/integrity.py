"""Both sides of a range compared record by record, through the offset map.

    source   s0    s1    s2    s3          map: s0->t0  s1->t1  s2->t2  s3->t3
    target   t0    t1    t2    t3

    matched        the same content where the map says
    out_of_order   the content is there, but on the wrong side of a record that is matched
    displaced      the content is there and in order, but not where the map says
    altered        other content where the map (or the displacement in force) says
    missing        a source record without any of these
    explained      one that the map leaves out and the gap ledger answers for; no fault
    extra          a target record without any of these

Contents are compared by a SHA-256 over key, value, headers in order and timestamp, made before
anything moves: 32 bytes a record are shuffled, never the record.

Skew: each partition's order is checked by one task (windows over offsets, no contents).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark import schemas
from spark.transforms import coding
from spark.transforms.cleaning import uncleaned
from spark.transforms.explaining import explained

FIELDS: Final = ("key", "value", "headers", "timestamp")
"""What is compared. Not the timestamp where the target stamps its own (LogAppendTime)."""
_MARKS: Final = ("key_mark", "value_mark", "headers_mark", "header_set_mark", "timestamp_ms")
_NOWHERE: Final = 2**63 - 1
_SIDE: Final = ["partition", "offset", "digest", *_MARKS]


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found. `findings` is `FINDINGS`, `totals` is `TOTALS`."""

    findings: DataFrame
    totals: DataFrame


def positions(runs: DataFrame) -> DataFrame:
    """Runs of one topic, of any number of blocks and segments, to `POSITIONS`."""
    once = runs.where(F.col("identity").isNotNull()).dropDuplicates(
        ["identity", "source_start", "source_end", "target_start"]
    )
    pieces = once.mapInArrow(
        coding.cut_runs, "source long, target long, size long, partition int"
    ).withColumn("step", F.explode(F.expr("sequence(0L, size - 1)")))
    mapped = pieces.select(
        "partition",
        (F.col("source") + F.col("step")).alias("source_offset"),
        (F.col("target") + F.col("step")).alias("target_offset"),
    )
    # a run of a block and of a segment may overlap without being equal
    return mapped.distinct().select(schemas.columns(schemas.POSITIONS))


def contradictions(mapped: DataFrame) -> DataFrame:
    """Offsets that the map sends to two places: (partition, source_offset, targets)."""
    twice = mapped.groupBy("partition", "source_offset").agg(
        F.sort_array(F.collect_set("target_offset")).alias("targets")
    )
    return twice.where(F.size("targets") > 1).select("partition", "source_offset", "targets")


def digests(records: DataFrame, compared: Sequence[str] = FIELDS) -> DataFrame:
    """`RECORDS` to a digest of the compared fields, and a mark of each; null and empty differ."""
    texts = F.transform(
        F.coalesce("headers", F.array().cast(schemas.HEADERS)),
        lambda each: F.concat_ws(
            "=",
            F.hex(F.encode(each["key"], "utf-8")),
            F.coalesce(F.hex(each["value"]), F.lit("null")),
        ),
    )
    framed = {
        "key": _framed(F.col("key")),
        "value": _framed(F.col("value")),
        "headers": _framed(F.array_join("header_texts", ",").cast("binary")),
        "timestamp": F.col("timestamp_ms").cast("string").cast("binary"),
    }
    whole = F.concat(*(framed[field] for field in FIELDS if field in compared))
    marked = records.withColumn("header_texts", texts).select(
        "partition",
        "offset",
        F.unhex(F.sha2(whole, 256)).alias("digest"),
        F.xxhash64(F.col("key").isNull(), "key").alias("key_mark"),
        F.xxhash64(F.col("value").isNull(), "value").alias("value_mark"),
        F.xxhash64(F.array_join("header_texts", ",")).alias("headers_mark"),
        F.xxhash64(F.array_join(F.sort_array("header_texts"), ",")).alias("header_set_mark"),
        "timestamp_ms",
    )
    return marked.select(_SIDE)


def limits(mapped: DataFrame, held: DataFrame) -> DataFrame:
    """`HELD` narrowed to what the map speaks of, or would, and both sides still hold."""
    source, target = F.col("source_offset"), F.col("target_offset")
    # a record that one side no longer holds is not compared, and none before it is
    edges = (
        mapped.join(F.broadcast(held), on="partition", how="inner")
        .groupBy("partition")
        .agg(
            F.min(source).alias("source_first"),
            F.min(target).alias("target_first"),
            F.max(F.when(target < F.col("target_start"), source + 1)).alias("source_kept"),
            F.max(F.when(source < F.col("source_start"), target + 1)).alias("target_kept"),
            F.max(source + 1).alias("source_mapped"),
            F.max(target + 1).alias("target_mapped"),
            F.min(F.when(source >= F.col("source_end"), target)).alias("target_behind"),
        )
    )
    known = held.join(edges, on="partition", how="left")
    target_known = F.coalesce("target_behind", _end("target"))
    return known.select(
        "partition",
        F.greatest("source_start", "source_kept", _begin("source")).alias("source_start"),
        F.least("source_end", _end("source")).alias("source_end"),
        F.greatest("target_start", "target_kept", _begin("target")).alias("target_start"),
        F.least("target_end", target_known).alias("target_end"),
    )


def _begin(side: str) -> Column:
    """Where the map begins, if the side begins there: nowhere, when it is empty."""
    return F.when(F.col(f"{side}_from_map"), F.coalesce(f"{side}_first", F.lit(_NOWHERE)))


def _end(side: str) -> Column:
    return F.coalesce(F.greatest(f"{side}_mapped", f"{side}_settled"), F.lit(0))


def compare(
    source: DataFrame,
    target: DataFrame,
    mapped: DataFrame,
    held: DataFrame,
    ledger: DataFrame,
    *,
    compacted: bool = False,
    source_compacted: bool = False,
) -> Audit:
    """`digests` of both sides, `POSITIONS`, `HELD`, `LEDGER`: all that is not as it should be.

    Of compacted topics, what one side's cleaner may have removed before the other's is not missed.
    `compacted` is about the target; a source that is not may have been, so both are excused then.
    """
    inside = F.broadcast(limits(mapped, held))
    ours = _named(_within(source, inside, "source"), "source")
    theirs = _named(_within(target, inside, "target"), "target")
    facing = _facing(ours, theirs, mapped).persist()
    same = F.coalesce(F.col("source_digest") == F.col("target_digest"), F.lit(False))
    placed = facing.where(same).select("partition", "source_offset", "expected", "target_offset")
    rest = facing.where(~same)
    if compacted or source_compacted:
        read = _named(source, "source"), _named(target, "target")
        rest = uncleaned(rest, read, mapped, target=compacted).persist()
    rest_source, rest_target = _of(rest, "source", "expected"), _of(rest, "target")
    moved = _moved(rest_source, rest_target).persist()
    ordered = _ordered(placed, moved).persist()
    rest_source = rest_source.join(moved, on=["partition", "source_offset"], how="left_anti")
    rest_target = rest_target.join(moved, on=["partition", "target_offset"], how="left_anti")
    altered = _altered(rest_source, rest_target, ordered).persist()
    missing = rest_source.join(altered, on=["partition", "source_offset"], how="left_anti")
    extra = rest_target.join(altered, on=["partition", "target_offset"], how="left_anti").persist()
    single = reduce(
        DataFrame.unionByName,
        [
            _finding(altered, F.lit("altered"), F.col("detail")),
            _missing(missing, ledger),
            _finding(_repeats(extra, facing), F.lit("extra"), F.col("detail")),
            _finding(ordered.where("kind != 'matched'"), F.col("kind"), _where_expected()),
        ],
    ).persist()
    return Audit(findings=_stretches(single), totals=_totals(facing, ordered, single))


def readable(source: DataFrame, target: DataFrame, mapped: DataFrame, held: DataFrame) -> DataFrame:
    """What each partition of `HELD` has, whether it can be compared or not: `READABLE`."""
    inside = F.broadcast(held)
    sides = _within(source, inside, "source"), _within(target, inside, "target"), mapped
    names = schemas.columns(schemas.READABLE)
    found = held.select("partition")
    for records, name in zip(sides, names[1:], strict=True):
        counts = records.groupBy("partition").agg(F.count("*").alias(name))
        found = found.join(counts, on="partition", how="left")
    return found.fillna(0, names).select(names)


def _facing(ours: DataFrame, theirs: DataFrame, mapped: DataFrame) -> DataFrame:
    """Each record beside what stands where the map says that it is, if anything does."""
    expected = ours.join(mapped, on=["partition", "source_offset"], how="left").withColumnRenamed(
        "target_offset", "expected"
    )
    return expected.join(
        theirs.withColumnRenamed("target_offset", "expected").withColumn(
            "target_offset", F.col("expected")
        ),
        on=["partition", "expected"],
        how="full",
    )


def _missing(missing: DataFrame, ledger: DataFrame) -> DataFrame:
    """Findings; what the map gives a place is missing, whatever the ledger says."""
    told = explained(missing, ledger)
    kind = F.when(F.col("explained"), "explained").otherwise("missing")
    detail = F.when(F.col("explained"), "in the gap ledger").otherwise(
        F.coalesce("surplus", _where_expected())
    )
    return _finding(_blank(told, "target"), kind, detail)


def _within(side: DataFrame, inside: DataFrame, name: str) -> DataFrame:
    held = inside.select("partition", f"{name}_start", f"{name}_end")
    return side.join(held, on="partition", how="inner").where(
        f"offset >= {name}_start and offset < {name}_end"
    )


def _named(side: DataFrame, name: str) -> DataFrame:
    renamed = [F.col(column).alias(f"{name}_{column}") for column in _SIDE[1:]]
    return side.select("partition", *renamed)


def _of(pairs: DataFrame, name: str, *also: str) -> DataFrame:
    """The records of one side."""
    there = pairs.where(F.col(f"{name}_offset").isNotNull())
    return there.select("partition", *also, *(f"{name}_{column}" for column in _SIDE[1:]))


def _moved(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """What is not in its place, by content: the n-th of a content here is the n-th there."""
    pairs: list[DataFrame] = []
    for side, name in ((ours, "source"), (theirs, "target")):
        nth = F.row_number().over(
            Window.partitionBy("partition", f"{name}_digest").orderBy(f"{name}_offset")
        )
        kept = ["partition", f"{name}_offset", F.col(f"{name}_digest").alias("digest")]
        expected = ["expected"] if name == "source" else []
        pairs.append(side.select(*kept, *expected, nth.alias("nth")))
    joined = pairs[0].join(pairs[1], on=["partition", "digest", "nth"], how="inner")
    return joined.select("partition", "source_offset", "expected", "target_offset")


def _ordered(placed: DataFrame, moved: DataFrame) -> DataFrame:
    """All pairs with their `kind`: matched, displaced or out_of_order."""
    pairs = placed.withColumn("kind", F.lit("matched")).unionByName(
        moved.withColumn("kind", F.lit("displaced"))
    )
    by_source = Window.partitionBy("partition").orderBy("source_offset")
    highest_before = F.max("target_offset").over(
        by_source.rowsBetween(Window.unboundedPreceding, -1)
    )
    by_source_back = Window.partitionBy("partition").orderBy(F.desc("source_offset"))
    least_after = F.min("target_offset").over(
        by_source_back.rowsBetween(Window.unboundedPreceding, -1)
    )
    crossed = (highest_before > F.col("target_offset")) | (least_after < F.col("target_offset"))
    crossed = F.coalesce(crossed, F.lit(False))
    kind = F.when((F.col("kind") == "displaced") & crossed, "out_of_order").otherwise(F.col("kind"))
    return pairs.select(
        "partition", "source_offset", "expected", "target_offset", kind.alias("kind")
    )


def _altered(ours: DataFrame, theirs: DataFrame, ordered: DataFrame) -> DataFrame:
    """What is left here and what is left where it should be, taken for one record."""
    shift = F.col("target_offset") - F.col("expected")
    known = ordered.where("kind != 'out_of_order'").select(
        "partition", "source_offset", shift.alias("shift"), F.lit(0).alias("asks")
    )
    asking = ours.select(
        "partition",
        "source_offset",
        F.lit(None).cast("long").alias("shift"),
        F.lit(1).alias("asks"),
    )
    in_force = F.last("shift", ignorenulls=True).over(
        Window.partitionBy("partition").orderBy("source_offset")
    )
    shifts = known.unionByName(asking).withColumn("in_force", F.coalesce(in_force, F.lit(0)))
    shifts = shifts.where("asks = 1").select("partition", "source_offset", "in_force")
    expected = ours.join(shifts, on=["partition", "source_offset"], how="inner").withColumn(
        "target_offset", F.col("expected") + F.col("in_force")
    )
    both = expected.join(theirs, on=["partition", "target_offset"], how="inner")
    return both.withColumn("detail", F.concat_ws(", ", *_differences()))


def _differences() -> list[Column]:
    def differs(mark: str) -> Column:
        return F.col(f"source_{mark}") != F.col(f"target_{mark}")

    headers = F.when(differs("header_set_mark"), "headers").when(
        differs("headers_mark"), "header order"
    )
    return [
        F.when(differs("key_mark"), "key"),
        F.when(differs("value_mark"), "value"),
        headers,
        F.when(differs("timestamp_ms"), "timestamp"),
    ]


def _repeats(extra: DataFrame, facing: DataFrame) -> DataFrame:
    """Extra records, with the source record of the same content in `detail`, if there is one."""
    first = (
        facing.where(F.col("source_offset").isNotNull())
        .groupBy("partition", F.col("source_digest").alias("target_digest"))
        .agg(F.min("source_offset").alias("repeated"))
    )
    known = extra.join(first, on=["partition", "target_digest"], how="left")
    detail = F.concat(F.lit("repeats source "), F.col("repeated").cast("string"))
    return _blank(known, "source").withColumn("detail", F.coalesce(detail, F.lit("")))


def _blank(side: DataFrame, other: str) -> DataFrame:
    return side.withColumn(f"{other}_offset", F.lit(None).cast("long"))


def _where_expected() -> Column:
    at = F.concat(F.lit("belongs at target "), F.col("expected").cast("string"))
    return F.coalesce(at, F.lit("the map has no place for it"))


def _finding(rows: DataFrame, kind: Column, detail: Column) -> DataFrame:
    return rows.select(
        kind.alias("kind"),
        "partition",
        "source_offset",
        "target_offset",
        detail.alias("detail"),
    )


def _stretches(single: DataFrame) -> DataFrame:
    """Neighbours with the same finding as one row; the first one's detail stands for all."""
    at = F.coalesce("source_offset", "target_offset")
    by_offset = Window.partitionBy("kind", "partition").orderBy(at)
    neighbour = (at == F.lag(at).over(by_offset) + 1) & (
        (F.col("target_offset") - F.col("source_offset")).eqNullSafe(
            F.lag(F.col("target_offset") - F.col("source_offset")).over(by_offset)
        )
    )
    begins = F.when(F.coalesce(neighbour, F.lit(False)), 0).otherwise(1)
    islands = single.withColumn("begins", begins).withColumn(
        "island", F.sum("begins").over(by_offset)
    )
    found = islands.groupBy("kind", "partition", "island").agg(
        F.min("source_offset").alias("source_first"),
        F.max("source_offset").alias("source_last"),
        F.min("target_offset").alias("target_first"),
        F.max("target_offset").alias("target_last"),
        F.count("*").alias("records"),
        F.min_by("detail", at).alias("detail"),
    )
    return found.select(schemas.columns(schemas.FINDINGS))


def _totals(facing: DataFrame, ordered: DataFrame, single: DataFrame) -> DataFrame:
    read = facing.groupBy("partition").agg(
        F.count("source_offset").alias("source_records"),
        F.count("target_offset").alias("target_records"),
    )
    kinds = single.select("partition", "kind").unionByName(
        ordered.where("kind = 'matched'").select("partition", "kind")
    )
    counted = ["matched", "missing", "explained", "extra", "altered", "out_of_order", "displaced"]
    counts = kinds.groupBy("partition").agg(
        *(F.count_if(F.col("kind") == kind).alias(kind) for kind in counted)
    )
    return (
        read.join(counts, on="partition", how="left")
        .fillna(0, counted)
        .select(schemas.columns(schemas.TOTALS))
    )


def _framed(field: Column) -> Column:
    length = F.concat(F.octet_length(field).cast("string"), F.lit(":")).cast("binary")
    return F.coalesce(F.concat(length, field), F.lit("null").cast("binary"))
