"""Record batches as a broker keeps them, read from its log files: what no consumer is shown.

Independent of our client, like `tests/faultkit/markers.py`: proves that a source topic has the
holes, emptied batches or codecs that a test is about, and how the target stored its copy.

    batch, magic 2:   0 baseOffset 8    8 batchLength 4   16 magic 1   21 attributes 2
                     23 lastOffsetDelta 4   27 baseTimestamp 8   35 maxTimestamp 8
                     43 producerId 8  51 producerEpoch 2  53 baseSequence 4  57 records 4
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tests.faultkit.regions import data_directories

if TYPE_CHECKING:
    from services.local.region import Region

_HEADER = struct.Struct(">qi4xb4xhi8xqqhii")  # 61 bytes
_LENGTH_AND_OFFSET = 12
_MAGIC_2 = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Stored(NamedTuple):
    """The header of a stored batch."""

    offset: int
    attributes: int
    last_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    records: int
    size: int

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def append_time(self) -> bool:
        return bool(self.attributes & 8)

    @property
    def control(self) -> bool:
        return bool(self.attributes & 32)

    @property
    def next_offset(self) -> int:
        return self.offset + self.last_delta + 1

    @property
    def missing(self) -> int:
        """Records that the cleaner took out of the batch."""
        return self.last_delta + 1 - self.records


def stored(region: Region, topic: str, partition: int = 0) -> list[Stored]:
    """All batches of a partition, from the first broker that has it; none while there is none."""
    for directory in data_directories(region):
        folder = directory / f"{topic}-{partition}"
        if folder.is_dir():
            files = sorted(folder.glob("*.log"))
            return [batch for file in files for batch in _parsed(file.read_bytes())]
    return []


def segments(region: Region, topic: str, partition: int = 0) -> int:
    """How many log files a partition has."""
    found = (directory / f"{topic}-{partition}" for directory in data_directories(region))
    return max(len(list(folder.glob("*.log"))) for folder in found)


def data(region: Region, topic: str, partition: int = 0) -> list[Stored]:
    """Batches with records in them, markers left out."""
    return [b for b in stored(region, topic, partition) if not b.control and b.records]


def _parsed(raw: bytes) -> list[Stored]:
    found = []
    at = 0
    while at + _HEADER.size <= len(raw):
        offset, length, magic, attributes, delta, newest, producer, epoch, _, count = (
            _HEADER.unpack_from(raw, at)
        )
        end = at + _LENGTH_AND_OFFSET + length
        if length <= 0 or end > len(raw) or magic != _MAGIC_2:
            break
        size = end - at
        found.append(Stored(offset, attributes, delta, newest, producer, epoch, count, size))
        at = end
    return found
