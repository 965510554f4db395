"""`<source>.checkpoints.internal`: MM2's bytes, partition 0, no tombstones.

key    STRING group  STRING target topic  INT32 partition
value  INT16 version = 0  INT64 source offset  INT64 target offset  STRING metadata  [ours]
ours   INT8 1  INT64 target offset that we commit for the group  [INT64 the one before]

`ours` is behind the known fields, where every reader of MM2's ignores it. It says which offsets of
the group on the target are our own doing, so that they are never taken for progress of the group.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.records.mm2 import read_string, string
from mirrorfleet.records.packing import Skipped

_PARTITION: Final = struct.Struct(">i")
_VALUE: Final = struct.Struct(">hqq")
_OURS: Final = b"\x01"
_OFFSET: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on both sides. `partition` is that of the target."""

    group: str
    partition: TopicPartition
    source: SourceOffset
    target: TargetOffset
    metadata: str = ""
    written: tuple[TargetOffset, ...] = ()
    """Offsets that commits of ours may have left on the target, the newest first."""


def topic_name(source: ClusterAlias) -> str:
    """On the target cluster; MM2's default separator."""
    return f"{source}.checkpoints.internal"


def encode(point: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value."""
    key = string(point.group) + string(point.partition.topic)
    value = _VALUE.pack(0, point.source, point.target) + string(point.metadata)
    if point.written:
        value += _OURS + b"".join(map(_OFFSET.pack, point.written))
    return key + _PARTITION.pack(point.partition.partition), value


def decode(key: bytes | None, value: bytes | None) -> Checkpoint | Skipped:
    """The checkpoint; anything malformed is skipped, as MirrorClient does."""
    if key is None or value is None or len(value) < _VALUE.size:
        return Skipped("checkpoint: no key, no value or a short value")
    group = read_string(key, 0)
    topic = read_string(key, group[1]) if group else None
    metadata = read_string(value, _VALUE.size)
    version, source, target = _VALUE.unpack_from(value)
    if group is None or topic is None or metadata is None or version != 0:
        return Skipped(f"checkpoint: malformed, or version {version}")
    if topic[1] + _PARTITION.size > len(key):
        return Skipped("checkpoint: the key ends before the partition")
    (number,) = _PARTITION.unpack_from(key, topic[1])
    return Checkpoint(
        group[0],
        TopicPartition(topic[0], number),
        SourceOffset(source),
        TargetOffset(target),
        metadata[0],
        _written(value[metadata[1] :]),
    )


def _written(rest: bytes) -> tuple[TargetOffset, ...]:
    """Ours, when the bytes are whole; what others put there is none of our business."""
    if rest[:1] != _OURS or len(rest) % _OFFSET.size != 1:
        return ()
    return tuple(TargetOffset(offset) for (offset,) in _OFFSET.iter_unpack(rest[1:]))
