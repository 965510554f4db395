"""An export of positions: its lines, and which of them fit what the fleet knows. No I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.records.identity import identity_list, parse_identity_list
from mirrorfleet.records.jsonvalue import Fields, to_json
from mirrorfleet.records.positions import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mirrorfleet.core.ids import ClusterAlias, PartitionIdentity
    from mirrorfleet.mapping.catalog import CatalogView
    from mirrorfleet.records.catalog import CatalogPartition

VERSION: Final = 1
_SHOWN: Final = 10
_MOST: Final = 2**63 - 1
_BOUNDS: Final = {
    "next_source": (0, _MOST),
    "leader_epoch": (-1, 2**31 - 1),
    "next_target": (0, _MOST),
    "records": (0, _MOST),
    "bytes": (0, _MOST),
    "time_ms": (0, _MOST),
}
"""Beyond them a position cannot be written, or can be written and not be read."""
_CORRECT: Final = "Nothing was written; correct the line or export again."


@dataclass(frozen=True, slots=True)
class Exported:
    """The lines of an export, and the partitions that are copied but have no position."""

    lines: list[str]
    without: list[str]


def exported(view: CatalogView, known: Mapping[PartitionIdentity, Position]) -> Exported:
    """A line for each partition that is copied now, by link, topic and partition."""
    entries = sorted(
        view.partitions.values(), key=lambda e: (e.link, e.source_topic, e.identity.partition)
    )
    return Exported(
        [line_of(known[e.identity], e) for e in entries if e.identity in known],
        [name_of(e) for e in entries if e.identity not in known],
    )


def shortened(texts: Sequence[str]) -> str:
    """The first of many, and how many more there are."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def line_of(position: Position, entry: CatalogPartition) -> str:
    """A line of an export."""
    return to_json(
        {
            "v": VERSION,
            "link": str(entry.link),
            "topic": entry.source_topic,
            "identity": identity_list(position.identity),
            "next_source": position.next_source,
            "leader_epoch": position.leader_epoch,
            "next_target": position.next_target,
            "records": position.records,
            "bytes": position.bytes,
            "time_ms": position.time_ms,
        }
    ).decode()


def positions_in(lines: Iterable[str], name: str) -> list[Position]:
    """The positions of an export; `name` is what errors call it.

    Raises: CorruptBatchError, UnknownVersionError, with the number of the line.
    """
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found += [position_in(line)] if line.strip() else []
        except (CorruptBatchError, UnknownVersionError) as error:
            error.message = f"{name} line {number}: {error.message.rstrip('.')}."
            error.hint = error.hint or _CORRECT
            raise
    return found


def position_in(line: str) -> Position:
    """The position that a line of an export carries.

    Raises: CorruptBatchError, also for numbers that no position can have; UnknownVersionError.
    """
    fields = Fields.parse(line.encode(), "exported position")
    fields.check_version(VERSION)
    parts = fields.values.get("identity")
    wrong = [
        f"{name} {fields.integer(name)} is not in {least}..{most}"
        for name, (least, most) in _BOUNDS.items()
        if not least <= fields.integer(name) <= most
    ]
    if wrong:
        raise CorruptBatchError(f"exported position: {', '.join(wrong)} in {line.strip()}")
    return Position(
        identity=parse_identity_list(parts if isinstance(parts, list) else []),
        next_source=SourceOffset(fields.integer("next_source")),
        leader_epoch=fields.integer("leader_epoch"),
        next_target=TargetOffset(fields.integer("next_target")),
        records=fields.integer("records"),
        bytes=fields.integer("bytes"),
        time_ms=fields.integer("time_ms"),
    )


def unfit(
    wanted: Sequence[Position],
    view: CatalogView,
    known: Mapping[PartitionIdentity, Position],
    *,
    exactly: bool = False,
) -> list[str]:
    """Lines that are of another copy, come twice, or know more than a position that is there.

    With `exactly`, one that is beyond its line does not fit either: it was gone a moment ago.
    """
    troubles = []
    seen: set[PartitionIdentity] = set()
    for one in wanted:
        entry, now = view.partitions.get(one.identity), known.get(one.identity)
        if entry is None:
            troubles.append(f"{one.identity} is not copied by this fleet")
        elif one.identity in seen:
            troubles.append(f"{name_of(entry)} comes twice")
        elif now is not None and not (_same(now, one) if exactly else _covers(now, one)):
            troubles.append(
                f"{name_of(entry)} stands at {now.next_source} already, not at {one.next_source},"
                f" its copy at {now.next_target}, not {one.next_target}"
            )
        seen.add(one.identity)
    return troubles


def unlinked(
    missing: Sequence[Position], view: CatalogView, sources: Collection[ClusterAlias]
) -> list[str]:
    """Links that the catalog has and the estate has not: nobody tells what their sources have."""
    links = Counter(view.partitions[one.identity].link for one in missing)
    return [
        f"{link} is not in the estate (lines: {count})"
        for link, count in sorted(links.items())
        if link.source not in sources
    ]


def _same(now: Position, one: Position) -> bool:
    return (now.next_source, now.next_target) == (one.next_source, one.next_target)


def _covers(now: Position, one: Position) -> bool:
    return now.next_source >= one.next_source and now.next_target >= one.next_target


def name_of(entry: CatalogPartition) -> str:
    """A partition as operators know it."""
    return f"{entry.source_topic}-{entry.identity.partition} of {entry.link}"
