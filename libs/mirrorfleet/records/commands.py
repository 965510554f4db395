"""`__mirrorfleet.F.commands`: what a fleet is asked to do; 90 days. JSON, no key.

A request has an id, and a time at which it ends; the answer is an event with that id. It says what
it is about so exactly (incarnation, offsets) that to meet it again does nothing. Written by
operators' commands, and by workers that need another incarnation from `sync`. What cannot be read
is Skipped: nobody may guess at a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterAlias, Link, PartitionIdentity, SourceOffset
from mirrorfleet.records.identity import identity_list, parse_identity_list
from mirrorfleet.records.jsonvalue import Fields, to_json
from mirrorfleet.records.packing import Skipped

VERSION: Final = 1
LONGEST_MS: Final = 3_600_000
"""No request lives longer, so older ones need not be read."""


class Action(StrEnum):
    """What is asked for a partition that stands still; [first, end) are source offsets."""

    ACCEPT_GAP = "accept-gap"
    """Go on though [first, end) is lost."""
    SEEK = "seek"
    """Go on at `end`; `first` is where it stands."""
    SKIP = "skip"
    """Leave the one record at `first` out."""
    BEGIN_ANEW = "begin-anew"
    """A worker's request to `sync`: another incarnation, from `start` on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request about one partition.

    `start` is a word of the catalog's, `cause` that of the fault, `records` how many [first, end)
    holds, where provable, and `request` the id of the operator's request behind a worker's own;
    all for BEGIN_ANEW only.
    """

    id: str
    action: Action
    identity: PartitionIdentity
    link: Link
    topic: str
    first: SourceOffset
    end: SourceOffset
    time_ms: int
    expires_ms: int
    writer: str
    start: str = ""
    cause: str = ""
    records: int | None = None
    request: str = ""
    detail: str = ""


def ends_ms(command: Command, came_ms: int) -> int:
    """When it ends by the clock of a reader to whom it came then; the writer's may be far off."""
    return came_ms + min(command.expires_ms - command.time_ms, LONGEST_MS)


def encode(command: Command) -> tuple[None, bytes]:
    """Key (none) and value."""
    return None, to_json(
        {
            "v": VERSION,
            "id": command.id,
            "action": command.action,
            "identity": identity_list(command.identity),
            "source": command.link.source,
            "target": command.link.target,
            "topic": command.topic,
            "first": command.first,
            "end": command.end,
            "time_ms": command.time_ms,
            "expires_ms": command.expires_ms,
            "writer": command.writer,
            "start": command.start,
            "cause": command.cause,
            "records": command.records,
            "request": command.request,
            "detail": command.detail,
        }
    )


def decode(value: bytes | None) -> Command | Skipped:
    """The request; what cannot be read is Skipped, never raised."""
    if value is None:
        return Skipped("command: no value")
    try:
        fields = Fields.parse(value, "command")
        fields.check_version(VERSION)
        return _command(fields)
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))


def _command(fields: Fields) -> Command:
    parts = fields.values.get("identity")
    return Command(
        id=fields.text("id"),
        action=fields.choice("action", Action),
        identity=parse_identity_list(parts if isinstance(parts, list) else []),
        link=Link(ClusterAlias(fields.text("source")), ClusterAlias(fields.text("target"))),
        topic=fields.text("topic"),
        first=SourceOffset(fields.integer("first")),
        end=SourceOffset(fields.integer("end")),
        time_ms=fields.integer("time_ms"),
        expires_ms=fields.integer("expires_ms"),
        writer=fields.text("writer"),
        start=fields.text("start"),
        cause=fields.text("cause"),
        records=fields.maybe_integer("records"),
        request=fields.text("request"),
        detail=fields.text("detail"),
    )
