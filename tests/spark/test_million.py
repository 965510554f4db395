"""The issue of an audit is what it finds among very many: a million records, seven faults."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark import schemas
from spark.transforms import coding, integrity
from tests.spark.frames import frame, identity

MANY = 1_000_000
REPEATED_AT = 700_001


def records(session: SparkSession) -> DataFrame:
    return session.range(MANY).select(
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        (F.col("id") + 1_700_000_000_000).alias("timestamp_ms"),
        F.lit(0).alias("timestamp_type"),
        F.concat(F.lit("k"), F.col("id") % 1000).cast("binary").alias("key"),
        F.sha1(F.col("id").cast("string")).cast("binary").alias("value"),
        F.array(
            F.struct(F.lit("a").alias("key"), F.lit(b"1").alias("value")),
            F.struct(F.lit("b").alias("key"), F.lit(None).cast("binary").alias("value")),
        ).alias("headers"),
    )


def with_seven_faults(source: DataFrame) -> DataFrame:
    number = F.col("offset")
    target = source.where(number != 100).withColumns(
        {
            "value": F.when(number == 200, b"x").otherwise(F.col("value")),
            "headers": F.when(number == 300, F.reverse("headers")).otherwise(F.col("headers")),
            "timestamp_ms": F.when(number == 400, F.col("timestamp_ms") + 1).otherwise(
                F.col("timestamp_ms")
            ),
            "key": F.when(number == 999_999, None).otherwise(F.col("key")),
        }
    )
    repeat = source.where(number == 600_000).withColumn("offset", F.lit(REPEATED_AT))
    moved = (
        F.when(number == 500_000, 500_007)
        .when(number == 500_007, 500_000)
        .otherwise(F.when(number >= REPEATED_AT, number + 1).otherwise(number))
    )
    return target.withColumn("offset", moved.cast("long")).unionByName(
        repeat.withColumn("offset", F.col("offset").cast("long"))
    )


def audited(session: SparkSession, source: DataFrame, target: DataFrame) -> integrity.Audit:
    name = coding.identity_bytes(identity())
    runs: list[tuple[object, ...]] = [
        (0, None, name, 0, REPEATED_AT, 0, REPEATED_AT, [], []),
        (0, None, name, REPEATED_AT, MANY, REPEATED_AT + 1, MANY + 1, [], []),
    ]

    return integrity.compare(
        integrity.digests(source),
        integrity.digests(target),
        integrity.positions(frame(session, runs, schemas.SEGMENT_RUNS)),
        frame(session, [(0, 0, MANY, 0, MANY + 1, MANY, MANY + 1, False, False)], schemas.HELD),
        frame(session, [], schemas.LEDGER),
    )


def test_each_of_seven_faults_in_a_million_records_is_found_and_nothing_else(
    compiling: SparkSession,
) -> None:
    source = records(compiling)

    audit = audited(compiling, source, with_seven_faults(source))

    found = {
        (row.kind, row.source_first, row.target_first, row.records, row.detail)
        for row in audit.findings.collect()
    }
    assert found == {
        ("missing", 100, None, 1, "belongs at target 100"),
        ("altered", 200, 200, 1, "value"),
        ("altered", 300, 300, 1, "header order"),
        ("altered", 400, 400, 1, "timestamp"),
        ("out_of_order", 500_000, 500_007, 1, "belongs at target 500000"),
        ("out_of_order", 500_007, 500_000, 1, "belongs at target 500007"),
        ("extra", None, REPEATED_AT, 1, "repeats source 600000"),
        ("altered", 999_999, 1_000_000, 1, "key"),
    }
    (totals,) = audit.totals.collect()
    assert (totals.source_records, totals.target_records) == (MANY, MANY)
    assert totals.matched == MANY - 7
