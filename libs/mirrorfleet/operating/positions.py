"""`positions export|import`: where each partition stands, out of the fleet and back into it.

An export is a line of JSON a partition. An import fills in positions that are gone, and nothing
else: all of it is checked first, against the catalog and both clusters, and then written slot by
slot by the slot's own transactional id, so that a worker that runs meets the new positions and
never writes over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import ConfigError, CorruptBatchError, RefusedError
from mirrorfleet.core.ids import (
    ClusterAlias,
    FleetName,
    PartitionIdentity,
    SourceOffset,
    TargetOffset,
    TopicPartition,
)
from mirrorfleet.core.names import control_topic, transactional_id
from mirrorfleet.kafka.fenced_writer import FencedWriter, by_order
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.mapping.catalog import CatalogView, read_catalog, read_control
from mirrorfleet.records import positions as codec
from mirrorfleet.records.identity import identity_list, parse_identity_list
from mirrorfleet.records.jsonvalue import Fields, to_json
from mirrorfleet.records.positions import Position, RemovedPosition
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

VERSION: Final = 1
_A_WRITE: Final = 500
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: positions written, and those that were there already, just so."""

    written: int
    known: int


async def export_lines(target: Cluster, fleet: FleetName) -> list[str]:
    """The positions of what is copied now, as lines.

    Raises: RefusedError without a catalog or positions; UnknownVersionError; as `read_control`.
    """
    view = await read_catalog(target, fleet)
    known = await _positions(target, fleet)
    found = [(known[i], entry) for i, entry in view.partitions.items() if i in known]
    found.sort(key=lambda pair: (pair[1].link, pair[1].source_topic, pair[0].identity.partition))
    return [line_of(position, entry) for position, entry in found]


async def import_lines(
    target: Cluster,
    sources: Mapping[ClusterAlias, Cluster],
    fleet: FleetName,
    lines: Iterable[str],
    clock: Clock,
) -> Imported:
    """Write the positions of an export that are gone.

    Raises: CorruptBatchError, UnknownVersionError (no export of ours), RefusedError with every
    line that does not fit; nothing was written then. A slot that could not be written later says
    so, and the same import can be run again.
    """
    wanted = [position_in(line) for line in lines if line.strip()]
    view = await read_catalog(target, fleet)
    known = await _positions(target, fleet)
    troubles = unfit(wanted, view, known)
    missing = [one for one in wanted if one.identity not in known]
    if not troubles:
        troubles = await _outside(missing, view, target, sources)
    if troubles:
        more = f" and {len(troubles) - _SHOWN} more" if len(troubles) > _SHOWN else ""
        raise RefusedError(f"{'; '.join(troubles[:_SHOWN])}{more}.", hint="Nothing was written.")
    slots: dict[int, tuple[CatalogPartition, list[Position]]] = {}
    for one in missing:
        entry = view.partitions[one.identity]
        slots.setdefault(entry.slot, (entry, []))[1].append(one)
    for entry, positions in slots.values():
        await _write(target, fleet, entry, positions, clock)
    return Imported(len(missing), len(wanted) - len(missing))


def lines_of(file: Path) -> list[str]:
    """The lines of an export. Raises: ConfigError for a file that cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error


async def export_with(
    estate: Estate, target: str, open_one: Callable[[Estate, str], Cluster]
) -> list[str]:
    """As `export_lines`, on the target of an estate, which `open_one` opens. Raises: the same."""
    async with open_one(estate, target) as cluster:
        return await export_lines(cluster, estate.fleet_of(target))


async def import_with(
    estate: Estate, target: str, lines: Iterable[str], open_one: Callable[[Estate, str], Cluster]
) -> Imported:
    """As `import_lines`, on the clusters of an estate, which `open_one` opens. Raises: the same."""
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(open_one(estate, target))
        sources = {
            link.source: await opened.enter_async_context(open_one(estate, link.source))
            for link in estate.links_into(target)
        }
        fleet = estate.fleet_of(target)
        return await import_lines(cluster, sources, fleet, lines, SystemClock())


async def _positions(target: Cluster, fleet: FleetName) -> dict[PartitionIdentity, Position]:
    found: dict[PartitionIdentity, Position] = {}
    for record in await read_control(target, control_topic(fleet, "positions")) or ():
        entry = codec.decode(record.key, record.value)
        if isinstance(entry, Position):
            found[entry.identity] = entry
        elif isinstance(entry, RemovedPosition):
            found.pop(entry.identity, None)
    return found


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


def position_in(line: str) -> Position:
    """The position that a line of an export carries.

    Raises: CorruptBatchError, UnknownVersionError.
    """
    fields = Fields.parse(line.encode(), "exported position")
    fields.check_version(VERSION)
    parts = fields.values.get("identity")
    found = Position(
        identity=parse_identity_list(parts if isinstance(parts, list) else []),
        next_source=SourceOffset(fields.integer("next_source")),
        leader_epoch=fields.integer("leader_epoch"),
        next_target=TargetOffset(fields.integer("next_target")),
        records=fields.integer("records"),
        bytes=fields.integer("bytes"),
        time_ms=fields.integer("time_ms"),
    )
    if min(found.next_source, found.next_target, found.records, found.bytes) < 0:
        raise CorruptBatchError(f"exported position: a number below 0 in {line.strip()}")
    return found


def unfit(
    wanted: Sequence[Position],
    view: CatalogView,
    known: Mapping[PartitionIdentity, Position],
) -> list[str]:
    """Lines that are of another copy, come twice, or would move a position that is there."""
    troubles = []
    seen: set[PartitionIdentity] = set()
    for one in wanted:
        entry, now = view.partitions.get(one.identity), known.get(one.identity)
        if entry is None:
            troubles.append(f"{one.identity} is not copied by this fleet")
        elif one.identity in seen:
            troubles.append(f"{_name(entry)} comes twice")
        elif now is not None and (now.next_source, now.next_target) != (
            one.next_source,
            one.next_target,
        ):
            troubles.append(
                f"{_name(entry)} stands at {now.next_source} already, not at {one.next_source}"
            )
        seen.add(one.identity)
    return troubles


async def _outside(
    missing: Sequence[Position],
    view: CatalogView,
    target: Cluster,
    sources: Mapping[ClusterAlias, Cluster],
) -> list[str]:
    """Positions that the logs of either side do not have any more, or not yet."""
    troubles = []
    uncommitted = Isolation.READ_UNCOMMITTED
    for one in missing:
        entry = view.partitions[one.identity]
        at = TopicPartition(entry.source_topic, one.identity.partition)
        source = sources[entry.link.source]
        first, end = await log_bounds(source, at, isolation=uncommitted)
        copied_to = TopicPartition(entry.target_topic, one.identity.partition)
        _, target_end = await log_bounds(target, copied_to, isolation=uncommitted)
        if not first <= one.next_source <= end:
            troubles.append(
                f"{_name(entry)} has [{first}, {end}) at the source, not {one.next_source}"
            )
        elif one.next_target > target_end:
            troubles.append(f"{copied_to} ends at {target_end}, below {one.next_target}")
    return troubles


async def _write(
    target: Cluster,
    fleet: FleetName,
    entry: CatalogPartition,
    positions: Sequence[Position],
    clock: Clock,
) -> None:
    # the worker that is fenced reads what was written
    writer = FencedWriter(
        target, transactional_id(fleet, entry.link.source, entry.slot), may_take=by_order
    )
    at = TopicPartition(control_topic(fleet, "positions"), entry.slot)
    try:
        for begin in range(0, len(positions), _A_WRITE):
            part = positions[begin : begin + _A_WRITE]
            await writer.write(at, [codec.encode(each) for each in part], clock.now_ms())
    finally:
        writer.close()


def _name(entry: CatalogPartition) -> str:
    return f"{entry.source_topic}-{entry.identity.partition} of {entry.link}"
