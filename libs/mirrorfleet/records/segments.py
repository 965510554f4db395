"""`__mirrorfleet.F.segments`: which source offsets became which target offsets.

One record a transaction holds all its runs; there is no key. Everything that repeats is written
once: the cluster, then each topic's ids, then its partitions, and offsets as differences.

    value      version  slot  time  clusters[]
    cluster    cluster.id  topics[]
    topic      source id  target id  incarnation  partitions[]
    partition  (number - the one before) * 2 + (more runs than one)  [runs]  run...
    run        source start - source end of the run before (0 at first)
               target start - target end of the run before (source start at first)
               source end - source start
               payloads * 2 + (has holes)  [holes: count, (start - end of the one before, size)...]
               (count of each payload but the last)  CRC of each payload

A payload is one batch as stored on the target, so a run's payloads hold its records exactly; the
last count is what the others leave. A single small run costs about 15 bytes. An unknown version
raises UnknownVersionError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import (
    ClusterId,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
    TopicId,
)
from mirrorfleet.records.identity import read_cluster_id, write_cluster_id
from mirrorfleet.records.packing import Reader, Writer

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Run:
    """Source [source_start, source_end) is target [target_start, target_start + records).

    source:  a a a . a a .      '.' = hole: (first missing offset, how many)
    target:  c c c c c          no holes inside a run
    """

    source_start: SourceOffset
    source_end: SourceOffset
    target_start: TargetOffset
    holes: tuple[tuple[SourceOffset, int], ...] = ()
    payloads: tuple[tuple[int, int], ...] = ()
    """(records, CRC-32C of the stored payload) of each batch, in order."""

    @property
    def records(self) -> int:
        """How many records the run holds."""
        return self.source_end - self.source_start - sum(size for _, size in self.holes)

    @property
    def target_end(self) -> TargetOffset:
        """The target offset after the last record."""
        return TargetOffset(self.target_start + self.records)


@dataclass(frozen=True, slots=True)
class Segment:
    """All runs of one transaction. Decoding gives them by topic ids, then by partition."""

    slot: SlotNumber
    time_ms: int
    runs: tuple[tuple[PartitionIdentity, tuple[Run, ...]], ...]


def encode_segment(segment: Segment, version: int = VERSION) -> bytes:
    """The record's value (its key is None).

    Raises: ValueError when payload counts and records of a run differ.
    """
    out = Writer(version)
    out.unsigned(segment.slot)
    out.unsigned(segment.time_ms)
    ordered = sorted(segment.runs, key=_topic_order)
    clusters = [(c, list(g)) for c, g in groupby(ordered, key=lambda r: r[0].source_cluster)]
    out.unsigned(len(clusters))
    for cluster, in_cluster in clusters:
        write_cluster_id(out, cluster)
        topics = [(t, list(g)) for t, g in groupby(in_cluster, key=_topic)]
        out.unsigned(len(topics))
        for (source_id, target_id, incarnation), partitions in topics:
            out.uuid(source_id)
            out.uuid(target_id)
            out.unsigned(incarnation)
            _write_partitions(out, partitions)
    return out.done()


def decode_segment(value: bytes) -> Segment:
    """The segment.

    Raises: UnknownVersionError, CorruptBatchError.
    """
    data = Reader(value, "segment", version=VERSION)
    slot = SlotNumber(data.unsigned())
    time_ms = data.unsigned()
    runs = [pair for _ in range(data.length()) for pair in _read_cluster(data)]
    data.end()
    return Segment(slot, time_ms, tuple(runs))


def _topic(entry: tuple[PartitionIdentity, tuple[Run, ...]]) -> tuple[TopicId, TopicId, int]:
    identity = entry[0]
    return identity.source_topic_id, identity.target_topic_id, identity.incarnation


def _topic_order(
    entry: tuple[PartitionIdentity, tuple[Run, ...]],
) -> tuple[str, bytes, bytes, int, int]:
    identity = entry[0]
    return (
        identity.source_cluster,
        identity.source_topic_id.bytes,
        identity.target_topic_id.bytes,
        identity.incarnation,
        identity.partition,
    )


def _write_partitions(
    out: Writer, partitions: list[tuple[PartitionIdentity, tuple[Run, ...]]]
) -> None:
    out.unsigned(len(partitions))
    before = 0
    for identity, runs in partitions:
        several = len(runs) != 1
        out.unsigned((identity.partition - before) * 2 + several)
        before = identity.partition
        if several:
            out.unsigned(len(runs))
        source_end = 0
        target_end = -1
        for run in runs:
            out.signed(run.source_start - source_end)
            out.signed(run.target_start - (run.source_start if target_end < 0 else target_end))
            _write_run(out, run)
            source_end, target_end = run.source_end, run.target_end


def _write_run(out: Writer, run: Run) -> None:
    out.unsigned(run.source_end - run.source_start)
    out.unsigned(len(run.payloads) * 2 + bool(run.holes))
    if run.holes:
        out.unsigned(len(run.holes))
        at: int = run.source_start
        for start, size in run.holes:
            out.unsigned(start - at)
            out.unsigned(size)
            at = start + size
    if run.payloads and sum(count for count, _ in run.payloads) != run.records:
        raise ValueError(f"payloads of {run} do not hold its {run.records} records")
    for count, _ in run.payloads[:-1]:
        out.unsigned(count)
    for _, crc in run.payloads:
        out.crc(crc)


def _read_cluster(data: Reader) -> Iterator[tuple[PartitionIdentity, tuple[Run, ...]]]:
    cluster = read_cluster_id(data)
    for _ in range(data.length()):
        yield from _read_topic(data, cluster)


def _read_topic(
    data: Reader, cluster: ClusterId
) -> Iterator[tuple[PartitionIdentity, tuple[Run, ...]]]:
    source_id, target_id, incarnation = data.uuid(), data.uuid(), data.unsigned()
    number = 0
    for _ in range(data.length()):
        head = data.unsigned()
        number += head >> 1
        count = data.length() if head & 1 else 1
        identity = PartitionIdentity(cluster, source_id, number, target_id, incarnation)
        yield identity, _read_runs(data, count)


def _read_runs(data: Reader, count: int) -> tuple[Run, ...]:
    runs: list[Run] = []
    source_end = 0
    for _ in range(count):
        source_start = source_end + data.signed()
        target_start = (runs[-1].target_end if runs else source_start) + data.signed()
        run = _read_run(data, source_start, target_start)
        runs.append(run)
        source_end = run.source_end
    return tuple(runs)


def _read_run(data: Reader, source_start: int, target_start: int) -> Run:
    source_end = source_start + data.unsigned()
    shape = data.unsigned()
    holes = tuple(_read_holes(data, source_start)) if shape & 1 else ()
    start, end = SourceOffset(source_start), SourceOffset(source_end)
    bare = Run(start, end, TargetOffset(target_start), holes)
    return Run(start, end, bare.target_start, holes, _read_payloads(data, shape >> 1, bare.records))


def _read_holes(data: Reader, at: int) -> Iterator[tuple[SourceOffset, int]]:
    for _ in range(data.length()):
        start = at + data.unsigned()
        size = data.unsigned()
        yield SourceOffset(start), size
        at = start + size


def _read_payloads(data: Reader, payloads: int, records: int) -> tuple[tuple[int, int], ...]:
    if payloads == 0:
        return ()
    if payloads * 4 > len(data.data) - data.at:
        raise CorruptBatchError(f"segment: {payloads} payloads do not fit what is left")
    counts = [data.unsigned() for _ in range(payloads - 1)]
    counts.append(records - sum(counts))
    if counts[-1] < 0:
        raise CorruptBatchError(f"segment: payloads hold more than the {records} records")
    return tuple((count, data.crc()) for count in counts)
