"""Transaction markers read from a broker's own log files: proof that a transaction was aborted.

Independent of our client and of librdkafka, neither of which hands out control records. Works on
the log directory of a broker of this machine, also while the broker runs: a batch that is not
written to its end is left out.

    batch, magic 2:   0 baseOffset 8     8 batchLength 4   16 magic 1   21 attributes 2
                     27 baseTimestamp 8  43 producerId 8   51 producerEpoch 2   61 records
    control record:  length, attributes 1, timestampDelta, offsetDelta, keyLength, key
                     key = version 2, type 2 (0 abort, 1 commit)
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tests.judge.reading import At
from tests.judge.stalls import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_HEADER = struct.Struct(">qi4xb4xh4xq8xqh8x")  # 61 bytes
_MARKER_KEY = struct.Struct(">hh")
_LENGTH_AND_OFFSET = 12
_CONTROL = 0x20
_MAGIC_2 = 2


class MarkerType(IntEnum):
    """How a transaction ended (org.apache.kafka.common.record.ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of one transaction in one partition."""

    offset: int
    producer_id: int
    producer_epoch: int
    type: MarkerType
    time_ms: int = 0
    """When the broker wrote it: from then on a consumer was shown the records before it."""


class _Batch(NamedTuple):
    """A batch as it is stored."""

    offset: int
    attributes: int
    time_ms: int
    producer_id: int
    producer_epoch: int
    records: bytes

    @property
    def is_marker(self) -> bool:
        """A cleaned marker leaves an empty batch."""
        return bool(self.attributes & _CONTROL and self.records)

    @property
    def marker(self) -> Marker:
        """What it says, as the marker that it is."""
        return Marker(
            self.offset, self.producer_id, self.producer_epoch, _type(self.records), self.time_ms
        )


def markers(log_directories: Iterable[Path], topic: str, partition: int) -> list[Marker]:
    """Read all markers of a partition, from the first of the directories that has it."""
    return [
        marker
        for segment in _segments(log_directories, topic, partition)
        for marker in parse_markers(segment)
    ]


def ending(
    log_directories: Iterable[Path], topic: str, partition: int, since: int
) -> Marker | None:
    """The marker that ended the transaction whose first batch is at offset `since`.

    It is the next one of the same producer, whose id stays while its epoch is raised; None while
    there is none, or no such batch.
    """
    producer_id: int | None = None
    for segment in _segments(log_directories, topic, partition):
        for batch in _batches(segment):
            if batch.offset == since:
                producer_id = batch.producer_id
            elif batch.is_marker and batch.producer_id == producer_id:
                return batch.marker
    return None


def times(log_directories: Iterable[Path], topic: str, partition: int) -> list[int]:
    """When transactions of a partition ended, committed or aborted, in ms and in order.

    Where one is always open, a read_committed consumer is shown more at these moments only.
    """
    return sorted(marker.time_ms for marker in markers(log_directories, topic, partition))


def commit_times(log_directories: Iterable[Path], topic: str, partition: int) -> list[int]:
    """When committed records of a partition became visible, each time, in ms and in order."""
    found = markers(log_directories, topic, partition)
    return sorted(marker.time_ms for marker in found if marker.type is MarkerType.COMMIT)


def line_of(at: At, source: Iterable[Path], target: Iterable[Path]) -> Line:
    """When a partition of the source `east` and its copy each showed more, by the brokers' logs."""
    copy = At(f"east.{at.topic}", at.partition)
    return Line(copy, times(source, *at), commit_times(target, *copy))


def aborts(log_directories: Iterable[Path], topic: str, partition: int) -> list[Marker]:
    """Read the markers of a partition that end an aborted transaction."""
    found = markers(log_directories, topic, partition)
    return [marker for marker in found if marker.type is MarkerType.ABORT]


def parse_markers(segment: bytes) -> Iterator[Marker]:
    """Find the markers among the batches of a segment file."""
    return (batch.marker for batch in _batches(segment) if batch.is_marker)


def _segments(log_directories: Iterable[Path], topic: str, partition: int) -> Iterator[bytes]:
    for directory in log_directories:
        folder = directory / f"{topic}-{partition}"
        if folder.is_dir():
            return (segment.read_bytes() for segment in sorted(folder.glob("*.log")))
    return iter(())


def _batches(segment: bytes) -> Iterator[_Batch]:
    at = 0
    while at + _HEADER.size <= len(segment):
        offset, length, magic, attributes, time_ms, producer, epoch = _HEADER.unpack_from(
            segment, at
        )
        end = at + _LENGTH_AND_OFFSET + length
        if length <= 0 or end > len(segment) or magic != _MAGIC_2:
            return
        records = segment[at + _HEADER.size : end]
        yield _Batch(offset, attributes, time_ms, producer, epoch, records)
        at = end


def _type(records: bytes) -> MarkerType:
    at = 0
    at = _skip_varint(records, at)  # length
    at += 1  # attributes
    for _ in range(3):
        at = _skip_varint(records, at)  # timestampDelta, offsetDelta, keyLength
    _, kind = _MARKER_KEY.unpack_from(records, at)
    return MarkerType(kind)


def _skip_varint(raw: bytes, at: int) -> int:
    while raw[at] & 0x80:
        at += 1
    return at + 1
