"""`__mirrorfleet.F.events`: what happened, for people and for the gap ledger; 90 days. JSON.

No key. An unknown version or a broken record is Skipped and counted by the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.records.jsonvalue import Fields, to_json
from mirrorfleet.records.packing import Skipped

VERSION: Final = 1


class EventKind(StrEnum):
    """The kinds that this build writes; a reader takes any word."""

    WORKER_STARTED = "worker-started"
    WORKER_STOPPED = "worker-stopped"
    SLOT_TAKEN = "slot-taken"
    SLOT_LOST = "slot-lost"
    PARTITION_FAULTED = "partition-faulted"
    PARTITION_RECOVERED = "partition-recovered"
    RECORDS_DROPPED = "records-dropped"
    GAP = "gap"
    REWOUND = "rewound"
    REQUEST_REFUSED = "request-refused"
    POSITIONS_REBUILT = "positions-rebuilt"
    MAP_SHORT = "map-short"
    TOPIC_CREATED = "topic-created"
    TOPIC_REFUSED = "topic-refused"
    TOPIC_VANISHED = "topic-vanished"
    TOPIC_REMOVED = "topic-removed"
    PARTITIONS_ADDED = "partitions-added"
    CLAIM_REFUSED = "claim-refused"
    LINK_REFUSED = "link-refused"
    LINK_REMOVED = "link-removed"
    CONFIG_CHANGED = "config-changed"
    ACL_ADDED = "acl-added"
    ACL_REMOVED = "acl-removed"
    ACL_REFUSED = "acl-refused"
    DRIFT_FOUND = "drift-found"
    DRIFT_ENDED = "drift-ended"
    VERDICT_CHANGED = "verdict-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    `topic` and `partition` are the source's. [first, end) are source offsets, both or neither;
    `records` only where provable; [first_time_ms, last_time_ms] is the span of a gap. `request` is
    the id of the command that this answers.
    """

    kind: str
    time_ms: int
    writer: str
    detail: str = ""
    cause: str = ""
    link: Link | None = None
    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    end: int | None = None
    records: int | None = None
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    request: str | None = None


def encode(event: Event) -> tuple[None, bytes]:
    """Key (none) and value; fields that are None are left out."""
    values: dict[str, object] = {
        "v": VERSION,
        "kind": event.kind,
        "time_ms": event.time_ms,
        "writer": event.writer,
        "detail": event.detail,
        "cause": event.cause,
        "source": event.link.source if event.link else None,
        "target": event.link.target if event.link else None,
        "topic": event.topic,
        "partition": event.partition,
        "first": event.first,
        "end": event.end,
        "records": event.records,
        "first_time_ms": event.first_time_ms,
        "last_time_ms": event.last_time_ms,
        "request": event.request,
    }
    return None, to_json({name: value for name, value in values.items() if value is not None})


def encode_at(event: Event, now_ms: int) -> tuple[None, bytes]:
    """The same, whenever it is written: an event is of when it happened."""
    del now_ms
    return encode(event)


def decode(value: bytes | None) -> Event | Skipped:
    """The event; what cannot be read is Skipped, never raised."""
    if value is None:
        return Skipped("event: no value")
    try:
        fields = Fields.parse(value, "event")
        fields.check_version(VERSION)
        return _event(fields)
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))


def _event(fields: Fields) -> Event:
    source, target = fields.maybe_text("source"), fields.maybe_text("target")
    linked = source is not None and target is not None
    return Event(
        kind=fields.text("kind"),
        time_ms=fields.integer("time_ms"),
        writer=fields.text("writer"),
        detail=fields.text("detail"),
        cause=fields.text("cause"),
        link=Link(ClusterAlias(source or ""), ClusterAlias(target or "")) if linked else None,
        topic=fields.maybe_text("topic"),
        partition=fields.maybe_integer("partition"),
        first=fields.maybe_integer("first"),
        end=fields.maybe_integer("end"),
        records=fields.maybe_integer("records"),
        first_time_ms=fields.maybe_integer("first_time_ms"),
        last_time_ms=fields.maybe_integer("last_time_ms"),
        request=fields.maybe_text("request"),
    )
