"""Binary control records to columns and back, a batch at a time (`mapInArrow`); no Spark in here.

Each function takes and gives an iterator of Arrow batches. A record that may not be skipped and
cannot be read becomes a row with a `problem`: whoever reads decides, in words, not by a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import Link, PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import pieces_of
from mirrorfleet.offsets.packing import Full, run_weight
from mirrorfleet.records import archive, events, samples
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.catalog import decode as decode_catalog
from mirrorfleet.records.identity import read_identity, write_identity
from mirrorfleet.records.packing import Reader, Writer
from mirrorfleet.records.segments import Run, decode_segment

Batches = Iterable[pa.RecordBatch]
Row = dict[str, object]
_BEST_ROWS: Final = 2000
_IDENTITY_VERSION: Final = 0
_LOG_APPEND_TIME: Final = 1

_HOLES = pa.list_(pa.struct([("start", pa.int64()), ("size", pa.int64())]))
_PAYLOADS = pa.list_(pa.struct([("records", pa.int64()), ("crc", pa.int64())]))
_RUN = [
    ("identity", pa.binary()),
    ("source_start", pa.int64()),
    ("source_end", pa.int64()),
    ("target_start", pa.int64()),
    ("target_end", pa.int64()),
    ("holes", _HOLES),
    ("payloads", _PAYLOADS),
]
_SEGMENTS = pa.schema([("slot", pa.int32()), ("problem", pa.string()), *_RUN])
_ARCHIVE = pa.schema(
    [
        ("slot", pa.int32()),
        ("problem", pa.string()),
        ("block", pa.binary()),
        ("block_runs", pa.int64()),
        ("weight", pa.int64()),
        *_RUN,
    ]
)
_BLOCKS = pa.schema(
    [
        ("slot", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("identity", pa.binary()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("runs", pa.int64()),
    ]
)
_PIECES = pa.schema(
    [
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("size", pa.int64()),
        ("partition", pa.int32()),
    ]
)
_SAMPLES = pa.schema(
    [
        ("time_ms", pa.int64()),
        ("link", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("state", pa.string()),
        ("verdict", pa.string()),
        ("lag_ms", pa.int64()),
        ("next_source", pa.int64()),
    ]
)
_EVENTS = pa.schema(
    [
        ("time_ms", pa.int64()),
        ("told_ms", pa.int64()),
        ("kind", pa.string()),
        ("link", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("records", pa.int64()),
        ("cause", pa.string()),
    ]
)
_CATALOG = pa.schema(
    [
        ("time_ms", pa.int64()),
        ("identity", pa.binary()),
        ("link", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("state", pa.string()),
        ("target_topic", pa.string()),
        ("target_append_time", pa.bool_()),
        ("target_compacted", pa.bool_()),
        ("source_compacted", pa.bool_()),
        ("incarnation", pa.int32()),
        ("start", pa.string()),
    ]
)


def identity_bytes(identity: PartitionIdentity) -> bytes:
    """One column for an identity: equal bytes for equal identities."""
    out = Writer(_IDENTITY_VERSION)
    write_identity(out, identity)
    return out.done()


def parse_identity(data: bytes) -> PartitionIdentity:
    """What `identity_bytes` wrote."""
    return read_identity(Reader(data, "identity", version=_IDENTITY_VERSION))


def decode_segments(batches: Batches) -> Iterator[pa.RecordBatch]:
    """(partition, offset, value) to `SEGMENT_RUNS`."""
    return _arrow(_SEGMENTS, (row for record in _rows(batches) for row in _segment(record)))


def decode_archive(batches: Batches) -> Iterator[pa.RecordBatch]:
    """(partition, offset, key, value), values not null, to `ARCHIVE_RUNS`."""
    return _arrow(_ARCHIVE, (row for record in _rows(batches) for row in _block(record)))


def cut_runs(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Runs to pieces without holes: source [source, source + size) is target [target, ...)."""
    return _arrow(_PIECES, (row for record in _rows(batches) for row in _pieces(record)))


def decode_samples(batches: Batches) -> Iterator[pa.RecordBatch]:
    """(timestamp_ms, timestamp_type, key, value) to `SAMPLES`; what cannot be read is skipped,
    nothing is decided by it.
    """
    return _arrow(_SAMPLES, (row for record in _rows(batches) for row in _sample(record)))


def decode_partitions(batches: Batches) -> Iterator[pa.RecordBatch]:
    """(timestamp_ms, key, value) of the catalog, values not null, to `CATALOG`.

    Raises: UnknownVersionError, CorruptBatchError.
    """
    return _arrow(_CATALOG, (row for record in _rows(batches) for row in _entry(record)))


def decode_events(batches: Batches) -> Iterator[pa.RecordBatch]:
    """(timestamp_ms, timestamp_type, value) to `EVENTS`; what cannot be read is skipped."""
    return _arrow(_EVENTS, (row for record in _rows(batches) for row in _event(record)))


def pack_blocks(full: Full) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """`PACK_RUNS`, each slot's and identity's together by rising target offset, to `BLOCKS`.

    A block never reaches over a run of a full block, so that what a key covers, its block
    contains; and it is written only when something in it is new.
    """

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        return _arrow(_BLOCKS, _packed(_rows(batches), full))

    return pack


def _packed(rows: Iterable[Row], full: Full) -> Iterator[Row]:
    kept: list[Row] = []
    weight = 0
    for row in rows:
        if kept and (_home(row) != _home(kept[0]) or row["origin"] == "closed"):
            yield from _written(kept)
            kept, weight = [], 0
        if row["origin"] == "closed":
            continue
        kept.append(row)
        weight += run_weight(_run(row))
        if len(kept) >= full.runs or weight >= full.weight:
            yield from _written(kept)
            kept, weight = [], 0
    yield from _written(kept)


def _home(row: Row) -> tuple[object, object]:
    return row["slot"], row["identity"]


def _written(rows: list[Row]) -> Iterator[Row]:
    if not any(row["origin"] == "new" for row in rows):
        return
    identity = _bytes(rows[0]["identity"])
    block = archive.Block(parse_identity(identity), tuple(_run(row) for row in rows))
    key, value = archive.encode(block)
    yield {
        "slot": rows[-1]["slot"],
        "key": key,
        "value": value,
        "identity": identity,
        "first": block.key.first,
        "end": block.key.end,
        "runs": len(rows),
    }


def _segment(record: Row) -> Iterator[Row]:
    try:
        segment = decode_segment(_bytes(record["value"]))
    except (UnknownVersionError, CorruptBatchError) as error:
        yield {"slot": record["partition"], "problem": _where("segments", record, error)}
        return
    for identity, runs in segment.runs:
        known = identity_bytes(identity)
        for run in runs:
            if run.records:  # one without any maps nothing
                yield {"slot": record["partition"], **_run_row(known, run)}


def _block(record: Row) -> Iterator[Row]:
    key = _bytes(record["key"])
    try:
        block = archive.decode(key, _bytes(record["value"]))
    except (UnknownVersionError, CorruptBatchError) as error:
        yield {"slot": record["partition"], "problem": _where("archive", record, error)}
        return
    if not isinstance(block, archive.Block):
        return
    known = identity_bytes(block.identity)
    head = {
        "slot": record["partition"],
        "block": key,
        "block_runs": len(block.runs),
        "weight": sum(map(run_weight, block.runs)),
    }
    for run in block.runs:
        yield {**head, **_run_row(known, run)}


def _where(topic: str, record: Row, error: Exception) -> str:
    return f"{topic}, partition {record['partition']}, offset {record['offset']}: {error}"


def _pieces(row: Row) -> Iterator[Row]:
    partition = parse_identity(_bytes(row["identity"])).partition
    for piece in pieces_of(_run(row)):
        yield {
            "source": piece.source,
            "target": piece.target,
            "size": piece.records,
            "partition": partition,
        }


def _sample(record: Row) -> Iterator[Row]:
    by_broker = record["timestamp_type"] == _LOG_APPEND_TIME
    sample = samples.decode(
        _maybe_bytes(record["key"]),
        _maybe_bytes(record["value"]),
        heard_ms=_int(record["timestamp_ms"]) if by_broker else None,
    )
    if not isinstance(sample, samples.Sample):
        return
    yield {
        "time_ms": sample.time_ms,
        "link": str(Link(sample.source, sample.target)),
        "topic": sample.topic,
        "partition": sample.partition,
        "state": sample.state,
        "verdict": sample.verdict,
        "lag_ms": sample.time_lag_ms,
        "next_source": sample.next_source,
    }


def _event(record: Row) -> Iterator[Row]:
    event = events.decode(_maybe_bytes(record["value"]))
    if not isinstance(event, events.Event):
        return
    # events are compared with what brokers date; a worker's clock may be hours off
    by_broker = record["timestamp_type"] == _LOG_APPEND_TIME
    yield {
        "time_ms": record["timestamp_ms"] if by_broker else event.time_ms,
        "told_ms": event.time_ms,
        "kind": event.kind,
        "link": None if event.link is None else str(event.link),
        "topic": event.topic,
        "partition": event.partition,
        "first": event.first,
        "end": event.end,
        "records": event.records,
        "cause": event.cause,
    }


def _entry(record: Row) -> Iterator[Row]:
    entry = decode_catalog(_bytes(record["key"]), _bytes(record["value"]))
    if isinstance(entry, CatalogPartition):
        yield {
            "time_ms": record["timestamp_ms"],
            "identity": identity_bytes(entry.identity),
            "link": str(entry.link),
            "topic": entry.source_topic,
            "partition": entry.identity.partition,
            "state": entry.state,
            "target_topic": entry.target_topic,
            "target_append_time": entry.target_append_time,
            "target_compacted": entry.target_compacted,
            "source_compacted": entry.source_compacted,
            "incarnation": entry.identity.incarnation,
            "start": entry.start,
        }


def _run_row(identity: bytes, run: Run) -> Row:
    return {
        "identity": identity,
        "source_start": run.source_start,
        "source_end": run.source_end,
        "target_start": run.target_start,
        "target_end": run.target_end,
        "holes": [{"start": start, "size": size} for start, size in run.holes],
        "payloads": [{"records": records, "crc": crc} for records, crc in run.payloads],
    }


def _run(row: Row) -> Run:
    return Run(
        source_start=SourceOffset(_int(row["source_start"])),
        source_end=SourceOffset(_int(row["source_end"])),
        target_start=TargetOffset(_int(row["target_start"])),
        holes=tuple((SourceOffset(one["start"]), one["size"]) for one in _structs(row["holes"])),
        payloads=tuple((one["records"], one["crc"]) for one in _structs(row["payloads"])),
    )


def _rows(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        yield from batch.to_pylist()


def _arrow(schema: pa.Schema, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    kept: list[Row] = []
    for row in rows:
        kept.append(row)
        if len(kept) == _BEST_ROWS:
            yield pa.RecordBatch.from_pylist(kept, schema=schema)
            kept = []
    if kept:
        yield pa.RecordBatch.from_pylist(kept, schema=schema)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise CorruptBatchError(f"{value!r} where bytes were expected")
    return value


def _maybe_bytes(value: object) -> bytes | None:
    return None if value is None else _bytes(value)


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise CorruptBatchError(f"{value!r} where a number was expected")
    return value


def _structs(value: object) -> list[dict[str, int]]:
    return value if isinstance(value, list) else []
