"""`heartbeats`: MM2's bytes, partition 0, never a tombstone.

key    STRING source alias  STRING target alias
value  INT16 version = 0    INT64 timestamp ms
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.records.mm2 import read_string, string
from mirrorfleet.records.packing import Skipped

TOPIC: Final = "heartbeats"
_VALUE: Final = struct.Struct(">hq")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That the flow source -> target was alive at a time."""

    source: ClusterAlias
    target: ClusterAlias
    time_ms: int


def encode(beat: Heartbeat) -> tuple[bytes, bytes]:
    """Key and value; the record's own timestamp must be `time_ms`, too."""
    return string(beat.source) + string(beat.target), _VALUE.pack(0, beat.time_ms)


def decode(key: bytes | None, value: bytes | None) -> Heartbeat | Skipped:
    """The heartbeat; anything malformed is skipped, as MirrorClient does."""
    if key is None or value is None or len(value) < _VALUE.size:
        return Skipped("heartbeat: no key, no value or a short value")
    source = read_string(key, 0)
    target = read_string(key, source[1]) if source else None
    version, time_ms = _VALUE.unpack_from(value)
    if source is None or target is None or version != 0:
        return Skipped(f"heartbeat: malformed key or version {version}")
    return Heartbeat(ClusterAlias(source[0]), ClusterAlias(target[0]), time_ms)
