"""`mm2-offset-syncs.<source>.internal` on the target: MM2's bytes.

    key    STRING source topic  INT32 partition
    value  INT64 source offset  INT64 target offset        (no version)

Partition 0, compacted, never a tombstone: a null value ends the reading thread of a Java MM2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.records.mm2 import read_string, string
from mirrorfleet.records.packing import Skipped

_PARTITION: Final = struct.Struct(">i")
_VALUE: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `source` was written at `target`. `partition` is that of the source."""

    partition: TopicPartition
    source: SourceOffset
    target: TargetOffset


def topic_name(source: ClusterAlias) -> str:
    """The name when the topic is kept on the target: it has the alias of the *other* side."""
    return f"mm2-offset-syncs.{source}.internal"


def encode(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Key and value."""
    key = string(sync.partition.topic) + _PARTITION.pack(sync.partition.partition)
    return key, _VALUE.pack(sync.source, sync.target)


def decode(key: bytes | None, value: bytes | None) -> OffsetSync | Skipped:
    """The sync; anything malformed is skipped."""
    if key is None or value is None or len(value) < _VALUE.size:
        return Skipped("offset-sync: no key, no value or a short value")
    topic = read_string(key, 0)
    if topic is None or topic[1] + _PARTITION.size > len(key):
        return Skipped("offset-sync: malformed key")
    (number,) = _PARTITION.unpack_from(key, topic[1])
    source, target = _VALUE.unpack_from(value)
    return OffsetSync(TopicPartition(topic[0], number), SourceOffset(source), TargetOffset(target))
