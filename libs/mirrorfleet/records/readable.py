"""Control records as readable text, by topic; a record that cannot be read says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Final
from uuid import UUID

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.records import (
    archive,
    catalog,
    checkpoint,
    commands,
    events,
    heartbeat,
    offset_sync,
    positions,
    progress,
    registry,
    reports,
    samples,
    segments,
    traces,
)
from mirrorfleet.records.identity import topic_id_text
from mirrorfleet.records.topics import ControlKind, control_kind

Decoder = Callable[[bytes | None, bytes | None], str]

_SHOWN: Final = 60
_Decode = Callable[[bytes | None, bytes | None], object]

_OURS: Final[dict[ControlKind, _Decode]] = {
    ControlKind.CATALOG: catalog.decode,
    ControlKind.POSITIONS: positions.decode,
    ControlKind.SEGMENTS: lambda _, value: segments.decode_segment(value or b""),
    ControlKind.ARCHIVE: archive.decode,
    ControlKind.REGISTRY: registry.decode,
    ControlKind.PROGRESS: lambda key, value: (
        traces.decode(value) if traces.is_ours(key) else progress.decode(key, value)
    ),
    ControlKind.REPORTS: reports.decode,
    ControlKind.SAMPLES: samples.decode,
    ControlKind.EVENTS: lambda _, value: events.decode(value),
    ControlKind.COMMANDS: lambda _, value: commands.decode(value),
}


def decoder_of(topic: str) -> Decoder | None:
    """How the topic's records read; None for a topic that is not ours or MM2's."""
    found: _Decode | None = None
    kind = control_kind(topic)
    if kind is not None:
        found = _OURS.get(kind[1])
    elif topic.startswith("mm2-offset-syncs.") and topic.endswith(".internal"):
        found = offset_sync.decode
    elif topic.endswith(".checkpoints.internal"):
        found = checkpoint.decode
    elif topic == heartbeat.TOPIC:
        found = heartbeat.decode
    return None if found is None else _readable(found)


def _readable(decode: _Decode) -> Decoder:
    def read(key: bytes | None, value: bytes | None) -> str:
        try:
            return text_of(decode(key, value))
        except MirrorfleetError as error:
            return f"unreadable: {error}"

    return read


def text_of(value: object) -> str:
    """Like `repr`, with Kafka's form of ids and without what is empty."""
    if isinstance(value, UUID):
        return topic_id_text(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"[{', '.join(map(text_of, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((item.name, getattr(value, item.name)) for item in fields(value))
        shown = ", ".join(f"{name}={text_of(one)}" for name, one in pairs if one not in (None, ()))
        return f"{type(value).__name__}({shown})"
    return str(value)


def shortened(data: bytes | None) -> str | None:
    """The beginning of any bytes as printable text."""
    if data is None:
        return None
    text = data[: _SHOWN + 1].decode(errors="backslashreplace")
    printable = "".join(char if char.isprintable() else "." for char in text)
    return printable if len(data) <= _SHOWN else f"{printable[:_SHOWN]}... ({len(data)} bytes)"
