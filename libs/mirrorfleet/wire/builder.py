"""Builds one magic 2 records section, dense, from records that may have holes between them.

Appends straight into the uncompressed bytes, so that a batch costs its bytes and not an object a
record. The source offsets that are absent become the `CopyBatch`'s holes.
"""

from __future__ import annotations

from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.checksum import crc32c
from mirrorfleet.wire.codecs import Codec, Effort, compress
from mirrorfleet.wire.copybatch import CopyBatch
from mirrorfleet.wire.varint import wrap_64, write_varint

_FAR: Final = 1 << 62
"""Timestamp deltas beyond this may need Java's 64-bit overflow."""


class BatchBuilder:
    """Records in offset order, then `build`. Timestamps count from the first record's."""

    __slots__ = (
        "_base_timestamp",
        "_expected",
        "_first",
        "_holes",
        "_latest",
        "_raw",
        "count",
    )

    def __init__(self) -> None:
        self.count = 0
        self._raw = bytearray()
        self._holes: list[tuple[SourceOffset, int]] = []
        self._first = self._expected = 0
        self._base_timestamp = self._latest = -1

    @property
    def raw_size(self) -> int:
        """Bytes of the records so far, uncompressed."""
        return len(self._raw)

    def append(self, offset: int, timestamp: int, tail: bytes) -> None:
        """Add a record; `tail` is its bytes after the deltas (see `framing`).

        Raises: CorruptBatchError when the offset is not above the one before.
        """
        if self.count == 0:
            self._first = offset
            self._base_timestamp = self._latest = timestamp
        elif offset != self._expected:
            self._hole(offset)
        self._expected = offset + 1
        self._latest = max(self._latest, timestamp)
        delta = timestamp - self._base_timestamp
        if not -_FAR < delta < _FAR:
            delta = wrap_64(delta)
        deltas = b"\0" + write_varint(delta) + write_varint(self.count)
        self._raw += write_varint(len(deltas) + len(tail)) + deltas + tail
        self.count += 1

    def build(
        self,
        codec: Codec,
        next_offset: int,
        *,
        leader_epoch: int = -1,
        effort: Effort = Effort.FAST,
    ) -> CopyBatch:
        """The batch; offsets from the last record up to `next_offset` are holes too.

        Raises: ValueError without records, CorruptBatchError when a record is past the end.
        """
        if not self.count:
            raise ValueError("a batch needs a record")
        if next_offset != self._expected:
            self._hole(next_offset)
            self._expected = next_offset
        payload = compress(codec, self._raw, effort)
        return CopyBatch(
            payload=payload,
            payload_crc=crc32c(payload),
            attributes=int(codec),
            count=self.count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._latest,
            first=SourceOffset(self._first),
            next_offset=SourceOffset(next_offset),
            holes=tuple(self._holes),
            leader_epoch=leader_epoch,
        )

    def _hole(self, offset: int) -> None:
        missing = offset - self._expected
        if missing < 0:
            raise CorruptBatchError(f"offset {offset} comes after {self._expected - 1}")
        self._holes.append((SourceOffset(self._expected), missing))
