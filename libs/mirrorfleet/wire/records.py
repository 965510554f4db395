"""Records one by one: reading control topics, and building small batches of our own.

The copying path does not come here. Errors: CorruptBatchError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.builder import BatchBuilder
from mirrorfleet.wire.codecs import MAX_INFLATED, Codec
from mirrorfleet.wire.framing import Header, contents_of, tail_of
from mirrorfleet.wire.reencode import source_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mirrorfleet.wire.batch import BatchHeader, Buffer
    from mirrorfleet.wire.copybatch import CopyBatch

NO_TIME: Final = -1
"""The timestamp of a record that has none, as from magic 0, or written with none."""


class Record(NamedTuple):
    """A record as a consumer sees it. Timestamp in ms, `NO_TIME` when there is none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class NewRecord(NamedTuple):
    """A record to be written. Timestamp in ms, or `NO_TIME`."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def records_of(buffer: Buffer, header: BatchHeader, limit: int = MAX_INFLATED) -> Iterator[Record]:
    """The records of a batch of any magic, lazily; control batches too (their key is the marker).

    The CRC is the caller's to check first (`batch.verify`).
    Raises: CorruptBatchError, also when the batch inflates to more than `limit` bytes.
    """
    for offset, timestamp, tail in source_records(memoryview(buffer), header, limit):
        yield Record(offset, timestamp, *contents_of(tail))


def build_batch(records: Sequence[NewRecord], codec: Codec = Codec.NONE) -> CopyBatch:
    """One batch of new records, at source offsets 0, 1, ... Raises: ValueError without records."""
    builder = BatchBuilder()
    for offset, record in enumerate(records):
        tail = tail_of(record.key, record.value, record.headers)
        builder.append(offset, record.timestamp, tail)
    return builder.build(codec, SourceOffset(len(records)))


def control_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
) -> CopyBatch:
    """One batch of (key, value) for a control topic, all of one time."""
    return build_batch([NewRecord(timestamp_ms, key, value) for key, value in records], codec)
