"""Small frames in the shapes of `spark.schemas`, and what plans are made of."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from mirrorfleet.core.ids import (
    ClusterId,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
)
from mirrorfleet.records.segments import Run, Segment, encode_segment

SEGMENTS = "partition int, offset long, value binary"
ARCHIVE = "partition int, offset long, key binary, value binary"


def identity(partition: int = 0, source: int = 1) -> PartitionIdentity:
    return PartitionIdentity(ClusterId("east"), UUID(int=source), partition, UUID(int=9))


def run(source: int, target: int, records: int, crc: int = 7) -> Run:
    return Run(
        SourceOffset(source),
        SourceOffset(source + records),
        TargetOffset(target),
        (),
        ((records, crc),),
    )


def segment(*runs: Run, partition: int = 0, slot: int = 0) -> bytes:
    return encode_segment(Segment(SlotNumber(slot), 1000, ((identity(partition), runs),)))


def frame(session: SparkSession, rows: Sequence[object], schema: T.StructType | str) -> DataFrame:
    return session.createDataFrame(list(rows), schema)


def plan(frame: DataFrame) -> str:
    """What is executed, before Spark adapts it."""
    return str(frame._jdf.queryExecution().toString())
