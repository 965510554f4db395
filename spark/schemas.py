"""Every set of columns, by name; nowhere else are columns spelled.

Times are milliseconds since 1970 (`*_ms`). `identity` is a `PartitionIdentity` as bytes, equal for
equal identities. Offsets say in their name which side they are of.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T

_LONG = T.LongType()
_INT = T.IntegerType()
_BYTES = T.BinaryType()
_TEXT = T.StringType()


def _struct(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


HEADERS: Final = T.ArrayType(_struct(key=_TEXT, value=_BYTES))

RECORDS: Final = _struct(
    partition=_INT,
    offset=_LONG,
    timestamp_ms=_LONG,
    timestamp_type=_INT,
    key=_BYTES,
    value=_BYTES,
    headers=HEADERS,
)
"""A topic as a consumer sees it. `timestamp_type` is Kafka's: 0 CreateTime, 1 LogAppendTime."""

HOLES: Final = T.ArrayType(_struct(start=_LONG, size=_LONG))
PAYLOADS: Final = T.ArrayType(_struct(records=_LONG, crc=_LONG))

_RUN: Final = {
    "identity": _BYTES,
    "source_start": _LONG,
    "source_end": _LONG,
    "target_start": _LONG,
    "target_end": _LONG,
    "holes": HOLES,
    "payloads": PAYLOADS,
}
RUN_COLUMNS: Final = tuple(_RUN)

SEGMENT_RUNS: Final = _struct(slot=_INT, problem=_TEXT, **_RUN)
"""One row a run. `problem` is why a record could not be read; its other columns are null then."""

ARCHIVE_RUNS: Final = _struct(
    slot=_INT, problem=_TEXT, block=_BYTES, block_runs=_LONG, weight=_LONG, **_RUN
)
"""One row a run of a live block: the block's key, its number of runs, the sum of `run_weight`."""

PACK_RUNS: Final = _struct(slot=_INT, origin=_TEXT, **_RUN)
"""What is packed: `origin` is new, open (a block that has room) or closed (one that is full)."""

BLOCKS: Final = _struct(
    slot=_INT, key=_BYTES, value=_BYTES, identity=_BYTES, first=_LONG, end=_LONG, runs=_LONG
)
"""Blocks to write. [first, end) are target offsets."""

POSITIONS: Final = _struct(partition=_INT, source_offset=_LONG, target_offset=_LONG)
"""The offset map, one row a record."""

HELD: Final = _struct(
    partition=_INT,
    source_start=_LONG,
    source_end=_LONG,
    target_start=_LONG,
    target_end=_LONG,
    source_settled=_LONG,
    target_settled=_LONG,
    source_from_map=T.BooleanType(),
    target_from_map=T.BooleanType(),
)
"""What is compared at most: [start, end) of each side, as asked for and as still held.

Below `*_settled` the map says all that it ever will, also where it says nothing; null when that is
not known. A side that is `*_from_map` begins with the first record of the map.
"""

FINDINGS: Final = _struct(
    kind=_TEXT,
    partition=_INT,
    source_first=_LONG,
    source_last=_LONG,
    target_first=_LONG,
    target_last=_LONG,
    records=_LONG,
    detail=_TEXT,
)
"""One row a stretch of neighbouring records with the same finding; both ends inclusive."""

TOTALS: Final = _struct(
    partition=_INT,
    source_records=_LONG,
    target_records=_LONG,
    matched=_LONG,
    missing=_LONG,
    explained=_LONG,
    extra=_LONG,
    altered=_LONG,
    out_of_order=_LONG,
    displaced=_LONG,
)
"""A partition of which nothing was compared has no row."""

READABLE: Final = _struct(
    partition=_INT, source_records=_LONG, target_records=_LONG, mapped_records=_LONG
)
"""What each side holds of what is asked for, and how many records the map has, asked for or not."""

SAMPLES: Final = _struct(
    time_ms=_LONG,
    link=_TEXT,
    topic=_TEXT,
    partition=_INT,
    state=_TEXT,
    verdict=_TEXT,
    lag_ms=_LONG,
    next_source=_LONG,
)
"""What was seen of a partition at a time. `lag_ms` is the time lag, null when it is not known."""

EVENTS: Final = _struct(
    time_ms=_LONG,
    told_ms=_LONG,
    kind=_TEXT,
    link=_TEXT,
    topic=_TEXT,
    partition=_INT,
    first=_LONG,
    end=_LONG,
    records=_LONG,
    cause=_TEXT,
)
"""`time_ms` is the broker's where it stamps the topic; `told_ms` is always the writer's own."""

LEDGER: Final = _struct(
    link=_TEXT, topic=_TEXT, partition=_INT, first=_LONG, end=_LONG, records=_LONG, kind=_TEXT
)
"""Source offsets [first, end); `records` null where their number is not provable.

Of a gap all of them were passed. Between the first and the last of dropped records others may have
been copied: where drops are many, what is near becomes one range.
"""

CATALOG: Final = _struct(
    time_ms=_LONG,
    identity=_BYTES,
    link=_TEXT,
    topic=_TEXT,
    partition=_INT,
    state=_TEXT,
    target_topic=_TEXT,
    target_append_time=T.BooleanType(),
    target_compacted=T.BooleanType(),
    source_compacted=T.BooleanType(),
    incarnation=_INT,
    start=_TEXT,
)
"""`time_ms` is when the entry was written last; `topic` is the source's."""

INCARNATIONS: Final = _struct(
    partition=_INT,
    identity=_BYTES,
    target_topic=_TEXT,
    target_append_time=T.BooleanType(),
    target_compacted=T.BooleanType(),
    source_compacted=T.BooleanType(),
    incarnation=_INT,
    start=_TEXT,
    since_ms=_LONG,
)
"""The partitions of one topic as they are copied now.

`since_ms` is when the incarnation before was removed, null for a first one.
"""

SLO: Final = _struct(
    link=_TEXT,
    topic=_TEXT,
    window_start_ms=_LONG,
    window_end_ms=_LONG,
    partitions=_LONG,
    minutes=_LONG,
    fresh_minutes=_LONG,
    available_minutes=_LONG,
    copied=_LONG,
    lost=_LONG,
    faults=_LONG,
    freshness=T.DoubleType(),
    availability=T.DoubleType(),
    completeness=T.DoubleType(),
    worst_lag_ms=_LONG,
)
"""Shares are of 1; null where there was nothing to share."""

SERIES: Final = _struct(
    link=_TEXT,
    topic=_TEXT,
    minute_ms=_LONG,
    partitions=_LONG,
    fresh=_LONG,
    available=_LONG,
    worst_lag_ms=_LONG,
)
"""The minutes of a window, for plots."""


def columns(schema: T.StructType) -> list[str]:
    """Names, for a `select` that is a contract."""
    return list(schema.fieldNames())
