"""The header that a copied batch gets on its way out: 61 bytes, made when it is sent.

Rules (LogValidator, UnifiedLog.analyzeAndValidateRecords): baseOffset 0, leader epoch -1,
lastOffsetDelta + 1 == count, our producer id, epoch and base sequence, codec bits kept. The
timestamp-type, control and delete-horizon bits are never sent: the broker refuses the first two
and would keep the third, and read our baseTimestamp as a tombstone's horizon.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mirrorfleet.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL
from mirrorfleet.wire.checksum import combine, crc32c

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.wire.copybatch import CopyBatch

_BEFORE_CRC: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")
_SEQUENCE: Final = struct.Struct(">i")
_SEQUENCE_AT: Final = 53
_SEQUENCES: Final = 1 << 31


def stamp(
    batch: CopyBatch,
    producer: ProducerIdentity,
    base_sequence: int,
    *,
    transactional: bool,
) -> bytes:
    """The batch's header for this producer; header + `batch.payload` is what the broker stores.

    Without idempotence: producer (-1, -1) and base sequence -1. The payload is not read again.
    """
    size = len(batch.payload)
    covered = _COVERED.pack(
        batch.attributes | TRANSACTIONAL if transactional else batch.attributes,
        batch.count - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        producer.producer_id,
        producer.epoch,
        base_sequence,
        batch.count,
    )
    crc = combine(crc32c(covered), batch.payload_crc, size)
    length = HEADER_SIZE - LENGTH_OVERHEAD + size
    return _BEFORE_CRC.pack(0, length, -1, MAGIC, crc) + covered


def sequence_of(header: bytes) -> int:
    """The base sequence in a header that was made here."""
    (sequence,) = _SEQUENCE.unpack_from(header, _SEQUENCE_AT)
    return int(sequence)


def next_sequence(sequence: int, count: int) -> int:
    """The base sequence after `count` records; 2^31 - 1 is followed by 0, as at the broker."""
    return (sequence + count) % _SEQUENCES
