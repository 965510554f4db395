"""Reading and writing; nothing else touches `spark.read` or `df.write`.

A topic is read between fixed offsets, so that each action on the frame sees the same records.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark import schemas
from spark.broker import Range

LARGEST_RECORD: Final = 8 * 1024 * 1024
"""As the archive topic allows."""


def read_topic(
    session: SparkSession, options: Mapping[str, str], topic: str, ranges: Mapping[int, Range]
) -> DataFrame:
    """What a committed reader sees of `ranges`: `RECORDS`.

    What retention or a packer takes meanwhile is left out, as it would be a moment later; who must
    know how much that was asks for the ranges again.
    """
    wanted = {number: each for number, each in ranges.items() if each.end > each.start}
    if not wanted:
        return session.createDataFrame([], schemas.RECORDS)
    reader = session.read.format("kafka").option("includeHeaders", "true")
    reader = reader.option("kafka.isolation.level", "read_committed")
    reader = reader.option("failOnDataLoss", "false")
    for name, value in options.items():
        reader = reader.option(f"kafka.{name}", value)
    reader = reader.option("assign", json.dumps({topic: sorted(wanted)}))
    for option, side in (("startingOffsets", "start"), ("endingOffsets", "end")):
        offsets = {str(number): getattr(each, side) for number, each in wanted.items()}
        reader = reader.option(option, json.dumps({topic: offsets}))
    return reader.load().select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        "headers",
    )


def write_topic(records: DataFrame, options: Mapping[str, str], topic: str) -> None:
    """Append (partition, key, value); a null value is a tombstone. Acknowledged by all replicas."""
    writer = records.select("partition", "key", "value").write.format("kafka")
    writer = writer.option("topic", topic).option("kafka.acks", "all")
    writer = writer.option("kafka.max.request.size", str(LARGEST_RECORD))
    for name, value in options.items():
        writer = writer.option(f"kafka.{name}", value)
    writer.save()


def forget_parquet(folder: Path, name: str, before: int) -> None:
    """Remove the partitions of a number below `folder` that are older than `before`."""
    for place in folder.glob(f"{name}=*"):
        number = place.name.removeprefix(f"{name}=")
        if number.isdecimal() and int(number) < before:
            shutil.rmtree(place)


def write_parquet(frame: DataFrame, folder: Path, values: Mapping[str, str | int]) -> None:
    """Write the partition of `values` below `folder`; what is there is replaced, also by nothing.

    To the partition's own path: `partitionBy` of an empty frame would leave all that is there.
    Aliases, topic names and numbers need none of the escapes that such a path may need.
    """
    place = folder.joinpath(*(f"{name}={value}" for name, value in values.items()))
    frame.drop(*values).coalesce(1).write.mode("overwrite").parquet(str(place))
