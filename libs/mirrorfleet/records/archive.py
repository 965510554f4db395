"""`__mirrorfleet.F.archive`: runs of one partition, packed; what `segments` is freed for.

    key    version  identity  first target  end target - first target
    value  version  runs  size of the packed columns  columns (zlib)  CRC of each payload
    columns (each a number a run)
           source start - source end of the run before (0 at first)
           target start - target end of the run before (first target at first)
           source end - source start
           payloads * 2 + (has holes)
           [holes: count, (start - end of the one before, size)...]
           (count of each payload but the last)

A key says which target offsets the block covers, so two packers never overwrite each other: they
leave two blocks that overlap, and the reader takes their union. A tombstone is written only for a
block that another one covers. An unknown version raises UnknownVersionError.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.records.identity import read_identity, write_identity
from mirrorfleet.records.packing import Reader, Writer
from mirrorfleet.records.segments import Run

VERSION: Final = 1
_MOST_UNPACKED: Final = 64 << 20
"""No block unpacks to more; a damaged one must not take all memory."""
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True, order=True)
class BlockKey:
    """The runs of `identity` within target offsets [first, end)."""

    identity: PartitionIdentity
    first: TargetOffset
    end: TargetOffset

    def covers(self, other: BlockKey) -> bool:
        """Whether everything in `other` is in this block, too; a block does not cover itself."""
        inside = self.first <= other.first and other.end <= self.end
        return inside and self != other and self.identity == other.identity


@dataclass(frozen=True, slots=True)
class Block:
    """Runs of one partition by rising target offsets; never empty."""

    identity: PartitionIdentity
    runs: tuple[Run, ...]

    @property
    def key(self) -> BlockKey:
        """What the block is stored under."""
        return BlockKey(self.identity, self.runs[0].target_start, self.runs[-1].target_end)


def encode(block: Block) -> tuple[bytes, bytes]:
    """Key and value; equal blocks are equal bytes."""
    columns = zlib.compress(_columns(block.runs), _LEVEL)
    out = Writer(VERSION)
    out.unsigned(len(block.runs))
    out.unsigned(len(columns))
    out.out += columns
    for run in block.runs:
        for _, crc in run.payloads:
            out.crc(crc)
    return encode_key(block.key), out.done()


def encode_key(key: BlockKey) -> bytes:
    """The compaction key of a block."""
    out = Writer(VERSION)
    write_identity(out, key.identity)
    out.unsigned(key.first)
    out.unsigned(key.end - key.first)
    return out.done()


def decode_key(key: bytes | None) -> BlockKey:
    """The key.

    Raises: UnknownVersionError, CorruptBatchError.
    """
    data = Reader(key or b"", "archive key", version=VERSION)
    identity = read_identity(data)
    first = data.unsigned()
    end = first + data.unsigned()
    data.end()
    return BlockKey(identity, TargetOffset(first), TargetOffset(end))


def decode(key: bytes | None, value: bytes | None) -> Block | BlockKey:
    """The block; its key alone when it was removed.

    Raises: UnknownVersionError; CorruptBatchError, also when key and runs disagree.
    """
    found = decode_key(key)
    if value is None:
        return found
    data = Reader(value, "archive block", version=VERSION)
    count = data.unsigned()
    columns = Reader(_unpacked(data.take(data.length())), "archive columns", version=VERSION)
    block = Block(found.identity, _read_runs(columns, data, count, found.first))
    data.end()
    if not block.runs or block.key != found:
        raise CorruptBatchError(f"archive: the runs of a block are not those of its key {found}")
    return block


def _columns(runs: tuple[Run, ...]) -> bytes:
    out = Writer(VERSION)
    source_end, target_end = 0, int(runs[0].target_start)
    for run in runs:
        out.signed(run.source_start - source_end)
        source_end = run.source_end
    for run in runs:
        out.signed(run.target_start - target_end)
        target_end = run.target_end
    for run in runs:
        out.unsigned(run.source_end - run.source_start)
    for run in runs:
        out.unsigned(len(run.payloads) * 2 + bool(run.holes))
    for run in runs:
        _write_holes(out, run)
    for run in runs:
        for count, _ in run.payloads[:-1]:
            out.unsigned(count)
    return out.done()


def _write_holes(out: Writer, run: Run) -> None:
    if not run.holes:
        return
    out.unsigned(len(run.holes))
    at: int = run.source_start
    for start, size in run.holes:
        out.unsigned(start - at)
        out.unsigned(size)
        at = start + size


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(packed, _MOST_UNPACKED)
    except zlib.error as error:
        raise CorruptBatchError(f"archive: columns cannot be unpacked: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise CorruptBatchError("archive: columns are cut short, too long or too many")
    return found


def _read_runs(data: Reader, crcs: Reader, count: int, first: TargetOffset) -> tuple[Run, ...]:
    if count > len(data.data):
        raise CorruptBatchError(f"archive: {count} runs do not fit their columns")
    rows = range(count)
    source_gaps = [data.signed() for _ in rows]
    target_gaps = [data.signed() for _ in rows]
    lengths = [data.unsigned() for _ in rows]
    shapes = [data.unsigned() for _ in rows]
    bare: list[Run] = []
    source_end, target_end = 0, int(first)
    for row in rows:
        start = source_end + source_gaps[row]
        source_end = start + lengths[row]
        holes = _read_holes(data, start) if shapes[row] & 1 else ()
        target = TargetOffset(target_end + target_gaps[row])
        bare.append(Run(SourceOffset(start), SourceOffset(source_end), target, holes))
        target_end = bare[-1].target_end
    runs = tuple(
        _with_payloads(run, data, crcs, shape >> 1) for run, shape in zip(bare, shapes, strict=True)
    )
    data.end()
    return runs


def _read_holes(data: Reader, at: int) -> tuple[tuple[SourceOffset, int], ...]:
    holes: list[tuple[SourceOffset, int]] = []
    for _ in range(data.length()):
        start = at + data.unsigned()
        size = data.unsigned()
        holes.append((SourceOffset(start), size))
        at = start + size
    return tuple(holes)


def _with_payloads(run: Run, data: Reader, crcs: Reader, payloads: int) -> Run:
    if payloads == 0:
        return run
    if payloads * 4 > len(crcs.data) - crcs.at:
        raise CorruptBatchError(f"archive: {payloads} payloads do not fit what is left")
    counts = [data.unsigned() for _ in range(payloads - 1)]
    counts.append(run.records - sum(counts))
    if counts[-1] < 0:
        raise CorruptBatchError(f"archive: payloads hold more than the {run.records} records")
    kept = tuple((count, crcs.crc()) for count in counts)
    return Run(run.source_start, run.source_end, run.target_start, run.holes, kept)
