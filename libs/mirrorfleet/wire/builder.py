"""Builds one magic 2 records section, dense, from records that may have holes between them.

Appends straight into the uncompressed bytes, so that a batch costs its bytes and not an object a
record. The source offsets that are absent become the `CopyBatch`'s holes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.checksum import crc32c
from mirrorfleet.wire.codecs import Codec, Effort, compress
from mirrorfleet.wire.copybatch import CopyBatch
from mirrorfleet.wire.varint import wrap_64, write_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.wire.framing import Framed

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
        """Add one record; see `extend`."""
        self.extend(((offset, timestamp, tail),))

    def extend(self, records: Iterable[Framed]) -> None:
        """Add records; a tail is a record's bytes after the deltas (see `framing`).

        Raises: CorruptBatchError when an offset is not above the one before; the builder is then
        of no more use, nor after an error of the iterable.
        """
        raw, count, latest = self._raw, self.count, self._latest
        expected, base = self._expected, self._base_timestamp
        for offset, timestamp, tail in records:
            if offset != expected:
                if count:
                    self._hole(expected, offset)
                expected = offset
            if not count:
                self._first, self._base_timestamp = offset, timestamp
                base = latest = timestamp
            elif timestamp > latest:
                latest = timestamp
            delta = timestamp - base
            if not -_FAR < delta < _FAR:
                delta = wrap_64(delta)
            deltas = write_varint(delta) + write_varint(count)
            raw += write_varint(1 + len(deltas) + len(tail)) + b"\0" + deltas + tail
            expected += 1
            count += 1
        self.count, self._latest, self._expected = count, latest, expected

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
            self._hole(self._expected, next_offset)
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

    def _hole(self, expected: int, offset: int) -> None:
        if offset < expected:
            raise CorruptBatchError(f"offset {offset} comes after {expected - 1}")
        self._holes.append((SourceOffset(expected), offset - expected))
