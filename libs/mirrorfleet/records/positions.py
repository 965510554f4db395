"""`__mirrorfleet.F.positions`: where each partition stands, and who owns the slot.

One record for each partition of a transaction, written inside that transaction, so every byte
counts: about 53 bytes of key and 25 of value.

    key    version  'P'  identity                        a position
           version  'B'                                  the barrier: one a slot (= partition)
           version  'R'                                  the release: one a slot
           version  'S'                                  the snapshot: one a slot
           version  'F'                                  the fence of an operator: one a slot
           version  'Q'                                  the quarantine: one a slot, from level 2
    value  version  flags  next source  leader epoch + 1  next target - next source
           records  bytes  time  [fault: offset - next source, kind, detail]

An unknown version or kind raises UnknownVersionError: skipping one would rewind a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import (
    PartitionIdentity,
    ProducerIdentity,
    SourceOffset,
    TargetOffset,
    TopicPartition,
)
from mirrorfleet.records.identity import read_identity, write_identity
from mirrorfleet.records.packing import Reader, Writer, unknown_version

VERSION: Final = 1
_POSITION: Final = ord("P")
_BARRIER: Final = ord("B")
_RELEASE: Final = ord("R")
_SNAPSHOT: Final = ord("S")
_FENCE: Final = ord("F")
_QUARANTINE: Final = ord("Q")
_HAS_FAULT: Final = 1
BARRIER_KEY: Final = bytes((VERSION, _BARRIER))
RELEASE_KEY: Final = bytes((VERSION, _RELEASE))
SNAPSHOT_KEY: Final = bytes((VERSION, _SNAPSHOT))
FENCE_KEY: Final = bytes((VERSION, _FENCE))
QUARANTINE_KEY: Final = bytes((VERSION, _QUARANTINE))


@dataclass(frozen=True, slots=True)
class PositionFault:
    """Why nobody may go on from a position: an older one than the copy, or one that is gone."""

    offset: SourceOffset
    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where copying of one partition goes on.

    `leader_epoch` is that of the last batch walked, skipped ones included; -1 when unknown.
    `records` and `bytes` count since the start of this incarnation. With a `fault` it says only
    that the partition was copied before.
    """

    identity: PartitionIdentity
    next_source: SourceOffset
    leader_epoch: int
    next_target: TargetOffset
    records: int
    bytes: int
    time_ms: int
    fault: PositionFault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Committed by a new owner; whatever lies before it is final."""

    owner: str
    producer: ProducerIdentity
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The last record of an owner that gives the slot away, which `generation` of the group asked.

    It says only that there is no need to wait: whoever takes the slot fences all the same.
    """

    owner: str
    generation: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Begins a batch that repeats all that holds of the slot: nothing before it must be read."""

    count: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """An operator stopped the slot; no worker copies it before the fence is lifted."""

    who: str
    reason: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class Lifted:
    """A tombstone: the fence of an operator is no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The owner goes on with the spare id of the slot, without these partitions of the target.

    Who finds it fences the spare id as well before it believes any position.
    """

    owner: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    time_ms: int


@dataclass(frozen=True, slots=True)
class Healed:
    """A tombstone: the spare id is not in use any more."""


@dataclass(frozen=True, slots=True)
class RemovedPosition:
    """A tombstone: the partition is no longer copied."""

    identity: PartitionIdentity


_OfSlot = Barrier | Released | Snapshot | Fence | Lifted | Quarantine | Healed
Entry = Position | RemovedPosition | _OfSlot


def encode(entry: Entry, version: int = VERSION) -> tuple[bytes, bytes | None]:
    """Key and value; `version` is that of a position's value, as the fleet's level says."""
    match entry:
        case Position():
            return position_key(entry.identity), _encode_position(entry, version)
        case Barrier():
            return BARRIER_KEY, _encode_barrier(entry)
        case Released():
            return RELEASE_KEY, _encode_released(entry)
        case Snapshot():
            return SNAPSHOT_KEY, _encode_snapshot(entry)
        case Fence():
            return FENCE_KEY, _encode_fence(entry)
        case Lifted():
            return FENCE_KEY, None
        case Quarantine():
            return QUARANTINE_KEY, _encode_quarantine(entry)
        case Healed():
            return QUARANTINE_KEY, None
        case RemovedPosition():
            return position_key(entry.identity), None


def decode(key: bytes | None, value: bytes | None) -> Entry:
    """The entry.

    Raises: UnknownVersionError for a version or kind of a newer build; CorruptBatchError for
    bytes that are no entry.
    """
    if not key:
        raise CorruptBatchError("positions: a record without key")
    if key == FENCE_KEY:
        return Lifted() if value is None else _decode_fence(value)
    if key == QUARANTINE_KEY:
        return Healed() if value is None else _decode_quarantine(value)
    of_the_slot = _OF_THE_SLOT.get(bytes(key))
    if of_the_slot is not None:
        if value is None:
            raise CorruptBatchError("positions: a barrier, release or snapshot without value")
        return of_the_slot(value)
    data = Reader(key, "positions key", version=VERSION)
    kind = data.take(1)[0]
    if kind != _POSITION:
        raise unknown_version("positions key", f"kind {chr(kind)}", VERSION)
    identity = read_identity(data)
    data.end()
    return RemovedPosition(identity) if value is None else _decode_position(identity, value)


def position_key(identity: PartitionIdentity) -> bytes:
    """The compaction key of a partition's position."""
    out = Writer(VERSION)
    out.out.append(_POSITION)
    write_identity(out, identity)
    return out.done()


def _encode_position(entry: Position, version: int) -> bytes:
    out = Writer(version)
    out.unsigned(0 if entry.fault is None else _HAS_FAULT)
    out.unsigned(entry.next_source)
    out.unsigned(entry.leader_epoch + 1)
    out.signed(entry.next_target - entry.next_source)
    out.unsigned(entry.records)
    out.unsigned(entry.bytes)
    out.unsigned(entry.time_ms)
    if entry.fault is not None:
        out.signed(entry.fault.offset - entry.next_source)
        out.text(entry.fault.kind)
        out.text(entry.fault.detail)
    return out.done()


def _decode_position(identity: PartitionIdentity, value: bytes) -> Position:
    data = Reader(value, "position", version=VERSION)
    flags = data.unsigned()
    if flags & ~_HAS_FAULT:
        raise unknown_version("position", f"flags {flags}", VERSION)
    next_source = data.unsigned()
    entry = Position(
        identity=identity,
        next_source=SourceOffset(next_source),
        leader_epoch=data.unsigned() - 1,
        next_target=TargetOffset(next_source + data.signed()),
        records=data.unsigned(),
        bytes=data.unsigned(),
        time_ms=data.unsigned(),
        fault=_read_fault(data, next_source) if flags & _HAS_FAULT else None,
    )
    data.end()
    return entry


def _read_fault(data: Reader, next_source: int) -> PositionFault:
    return PositionFault(SourceOffset(next_source + data.signed()), data.text(), data.text())


def _encode_barrier(entry: Barrier) -> bytes:
    out = Writer(VERSION)
    out.text(entry.owner)
    out.unsigned(entry.producer.producer_id)
    out.unsigned(entry.producer.epoch)
    out.unsigned(entry.time_ms)
    return out.done()


def _decode_barrier(value: bytes) -> Barrier:
    data = Reader(value, "barrier", version=VERSION)
    entry = Barrier(
        owner=data.text(),
        producer=ProducerIdentity(data.unsigned(), data.unsigned()),
        time_ms=data.unsigned(),
    )
    data.end()
    return entry


def _encode_released(entry: Released) -> bytes:
    out = Writer(VERSION)
    out.text(entry.owner)
    out.unsigned(entry.generation)
    out.unsigned(entry.time_ms)
    return out.done()


def _decode_released(value: bytes) -> Released:
    data = Reader(value, "release", version=VERSION)
    entry = Released(owner=data.text(), generation=data.unsigned(), time_ms=data.unsigned())
    data.end()
    return entry


def _encode_snapshot(entry: Snapshot) -> bytes:
    out = Writer(VERSION)
    out.unsigned(entry.count)
    out.unsigned(entry.time_ms)
    return out.done()


def _decode_snapshot(value: bytes) -> Snapshot:
    data = Reader(value, "snapshot", version=VERSION)
    entry = Snapshot(count=data.unsigned(), time_ms=data.unsigned())
    data.end()
    return entry


def _encode_fence(entry: Fence) -> bytes:
    out = Writer(VERSION)
    out.text(entry.who)
    out.text(entry.reason)
    out.unsigned(entry.time_ms)
    return out.done()


def _decode_fence(value: bytes) -> Fence:
    data = Reader(value, "fence", version=VERSION)
    entry = Fence(who=data.text(), reason=data.text(), time_ms=data.unsigned())
    data.end()
    return entry


def _encode_quarantine(entry: Quarantine) -> bytes:
    out = Writer(VERSION)
    out.text(entry.owner)
    out.unsigned(entry.producer.producer_id)
    out.unsigned(entry.producer.epoch)
    out.unsigned(entry.time_ms)
    out.unsigned(len(entry.partitions))
    for topic, number in entry.partitions:
        out.text(topic)
        out.unsigned(number)
    return out.done()


def _decode_quarantine(value: bytes) -> Quarantine:
    data = Reader(value, "quarantine", version=VERSION)
    entry = Quarantine(
        owner=data.text(),
        producer=ProducerIdentity(data.unsigned(), data.unsigned()),
        time_ms=data.unsigned(),
        partitions=tuple(
            TopicPartition(data.text(), data.unsigned()) for _ in range(data.unsigned())
        ),
    )
    data.end()
    return entry


_OF_THE_SLOT: Final[Mapping[bytes, Callable[[bytes], Entry]]] = {
    BARRIER_KEY: _decode_barrier,
    RELEASE_KEY: _decode_released,
    SNAPSHOT_KEY: _decode_snapshot,
}
