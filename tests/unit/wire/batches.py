"""Batches for the tests of the wire layer, made and read by aiokafka: a decoder that is not ours.

Only headers are patched here, with `struct` and the CRC, where aiokafka cannot say what is wanted.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from mirrorfleet.core.ids import ProducerIdentity, SourceOffset
from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.copybatch import AbortedTransaction, Terms, Walked
from mirrorfleet.wire.engine import NOTHING, walk_fetched
from mirrorfleet.wire.rewrite import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mirrorfleet.wire.batch import BatchHeader
    from mirrorfleet.wire.copybatch import CopyBatch

GOLDEN = Path(__file__).parents[2] / "golden" / "batches"
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
TIME = 1_700_000_000_000
US = ProducerIdentity(9000, 2)

_FIELDS = {
    "base_offset": (0, ">q"),
    "leader_epoch": (12, ">i"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "count": (57, ">i"),
}


class Seen(NamedTuple):
    """A record as aiokafka decodes it."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def some(count: int, *, first: int = 0, size: int = 20) -> list[Seen]:
    """`count` records, each different: offsets from `first`, values of `size` bytes."""
    return [
        Seen(first + i, TIME + i * 10, b"k%d" % i, (b"value-%d " % i * size)[:size])
        for i in range(count)
    ]


def batch_of(
    records: Sequence[Seen], *, codec: int = NONE, producer_id: int = -1, **header: int
) -> bytearray:
    """One magic 2 batch; offsets may have holes. A producer id makes it transactional."""
    builder = DefaultRecordBatchBuilder(
        2, codec, int(producer_id >= 0), producer_id, 3 if producer_id >= 0 else -1, -1, 1 << 26
    )
    base = records[0].offset
    for record in records:
        offset, timestamp, key, value, headers = record
        assert builder.append(offset - base, timestamp, key, value, list(headers)) is not None
    return patched(builder.build(), base_offset=base, **header)


def patched(batch: bytes | bytearray, **header: int) -> bytearray:
    """The batch with header fields set, and its CRC made right again."""
    out = bytearray(batch)
    for name, value in header.items():
        position, layout = _FIELDS[name]
        struct.pack_into(layout, out, position, value)
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return out


def marker(offset: int, producer_id: int, kind: int) -> bytearray:
    """A transaction marker: kind 0 aborts, 1 commits."""
    golden = (GOLDEN / f"v2-marker-{('abort', 'commit')[kind]}.bin").read_bytes()
    return patched(golden, base_offset=offset, producer_id=producer_id)


def header_of(buffer: bytes | bytearray | memoryview) -> BatchHeader:
    """The header of the only batch."""
    (header,) = walk(buffer)
    return header


def fetched(
    *batches: bytes | bytearray,
    wanted: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
    terms: Terms | None = None,
    undecided: Mapping[int, int] = NOTHING,
) -> Walked:
    """What the engine makes of these bytes; `aborted` is (producer id, first offset)."""
    buffer = bytearray(b"".join(batches))
    entries = [AbortedTransaction(*entry) for entry in aborted]
    from_offset = SourceOffset(wanted)
    terms = terms or Terms()
    return walk_fetched(buffer, 0, len(buffer), from_offset, entries, terms, undecided)


def sent(batch: CopyBatch) -> bytes:
    """The bytes that go to the target."""
    return stamp(batch, US, 7, transactional=True) + batch.payload


def seen_in(buffer: bytes | bytearray) -> list[Seen]:
    """The records in bytes, by aiokafka; every CRC must be right."""
    found: list[Seen] = []
    reader = MemoryRecords(bytes(buffer))
    while reader.has_next():
        batch = reader.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        found += [Seen(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    return found


def copied(walked: Walked) -> list[Seen]:
    """What a consumer of the target reads, at *source* offsets; each batch's shape is checked."""
    found: list[Seen] = []
    for batch in walked.batches:
        records = seen_in(sent(batch))
        assert [record.offset for record in records] == list(range(batch.count))
        offsets = source_offsets(batch)
        found += [r._replace(offset=at) for r, at in zip(records, offsets, strict=True)]
    return found


def source_offsets(batch: CopyBatch) -> list[int]:
    """The source offsets that a batch claims to hold."""
    missing = {at + i for at, count in batch.holes for i in range(count)}
    return [at for at in range(batch.first, batch.next_offset) if at not in missing]


def golden(name: str) -> tuple[bytes, list[str]]:
    """A golden batch and the lines that Kafka's decoder gave for it."""
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    return (GOLDEN / f"{name}.bin").read_bytes(), lines


def copy_of(records: list[Seen], *, codec: int = 0, **header: int) -> CopyBatch:
    """The only batch of a walk over one with these records."""
    (batch,) = fetched(batch_of(records, codec=codec, **header), wanted=records[0].offset).batches
    return batch


def read(*batches: CopyBatch) -> list[Seen]:
    """What the target's consumers read, at source offsets."""
    return [
        record._replace(offset=at)
        for batch in batches
        for record, at in zip(seen_in(sent(batch)), source_offsets(batch), strict=True)
    ]
