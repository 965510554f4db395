"""Sampled batches, in `__mirrorfleet.F.progress` under keys of their own: how hops share a trace.

    key    mark (0x74, no version of a snapshot's key)  version  slot
    value  version  batches[]
    batch  topic id  partition  first offset  count  trace id (16)  span id (8)  committed ms  hop

The last few batches of a slot that were traced. Their offsets are those of the cluster that the
topic is on: the target of the hop that writes, the source of the hop that reads. Users' records
carry nothing. Nothing is decided by it but which trace a batch belongs to, so what cannot be read
is Skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SlotNumber, TopicId
from mirrorfleet.records.packing import Reader, Skipped, Writer

VERSION: Final = 1
KEPT: Final = 32
"""Batches in a slot's record: at one a second, what a reader may have missed in half a minute."""
_MARK: Final = 0x74
_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBatch:
    """A batch that was traced, as it lies on the cluster that the record is on.

    `first` is its first offset there and `count` how many follow. `span_id` is the span of the
    hop that copied it, `hop` the number of that hop: 1 where the trace begins.
    """

    topic_id: TopicId
    partition: int
    first: int
    count: int
    trace_id: int
    span_id: int
    committed_ms: int
    hop: int


def encode(slot: SlotNumber, batches: list[SampledBatch]) -> tuple[bytes, bytes]:
    """Key and value; only the last `KEPT` batches are written."""
    key = Writer(_MARK)
    key.unsigned(VERSION)
    key.unsigned(slot)
    out = Writer(VERSION)
    kept = batches[-KEPT:]
    out.unsigned(len(kept))
    for batch in kept:
        out.uuid(batch.topic_id)
        for number in (batch.partition, batch.first, batch.count):
            out.unsigned(number)
        out.out += batch.trace_id.to_bytes(_TRACE_ID_BYTES, "big")
        out.out += batch.span_id.to_bytes(_SPAN_ID_BYTES, "big")
        out.unsigned(batch.committed_ms)
        out.unsigned(batch.hop)
    return key.done(), out.done()


def is_ours(key: bytes | None) -> bool:
    """Whether a record of the progress topic holds sampled batches; the others are snapshots."""
    return key is not None and key[:1] == bytes((_MARK,))


def decode(value: bytes | None) -> tuple[SampledBatch, ...] | Skipped:
    """The batches of a record whose key `is_ours`; never raises."""
    if value is None:
        return Skipped("traces: no value")
    try:
        data = Reader(value, "traces", version=VERSION)
        batches = tuple(_read(data) for _ in range(data.length()))
        data.end()
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))
    return batches


def _read(data: Reader) -> SampledBatch:
    return SampledBatch(
        topic_id=data.uuid(),
        partition=data.unsigned(),
        first=data.unsigned(),
        count=data.unsigned(),
        trace_id=int.from_bytes(data.take(_TRACE_ID_BYTES), "big"),
        span_id=int.from_bytes(data.take(_SPAN_ID_BYTES), "big"),
        committed_ms=data.unsigned(),
        hop=data.unsigned(),
    )
