"""`positions export|import`: where each partition stands, out of the fleet and back into it.

An export is a line of JSON a partition. An import fills in positions that are gone, and nothing
else: all of it is checked first, against the catalog and both clusters, and then written slot by
slot by the slot's own transactional id, so that a worker that runs meets the new positions and
never writes over them. What a worker did before its id was taken is looked for once more then.
An import that ended halfway is run again: what it wrote is there, and may have moved on.

    copy of the partition   ├── what the export knows ──┤
    refused                 ├── what the export knows ──┤── committed since ──┤   a repeat
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    BrokerError,
    ConfigError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    FleetName,
    PartitionIdentity,
    TopicPartition,
)
from mirrorfleet.core.names import control_topic, transactional_id
from mirrorfleet.kafka.fenced_writer import write_by_order
from mirrorfleet.kafka.offsets import (
    EARLIEST,
    LATEST,
    ListedOffset,
    OffsetSpec,
    list_offsets,
    log_bounds,
)
from mirrorfleet.kafka.stored import first_committed
from mirrorfleet.mapping.catalog import CatalogView, read_catalog, read_control
from mirrorfleet.operating.exported import (
    Exported,
    exported,
    name_of,
    positions_in,
    shortened,
    unfit,
    unlinked,
)
from mirrorfleet.records import positions as codec
from mirrorfleet.records.positions import Position, RemovedPosition
from mirrorfleet.records.topics import ControlKind, control_of
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.slots.recalling import recall
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.wire.records import Record

_Offsets = dict[TopicPartition, int]

_A_WRITE: Final = 500
_OLDER: Final = (
    "Import an export that is as new as the copy. Without one: a mirror makes positions again from"
    " the map, where that is whole; else find the last copied record on both sides with"
    " `mirrorfleet inspect`, and correct next_source and next_target of the line by it."
)
_UNLINKED: Final = "Put the link back into the estate, or remove its lines from the file."
_AGAIN: Final = "The same import can be run again, corrected or not: what is there stays as it is."


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: positions written, and those that were there already, or beyond."""

    written: int
    known: int


async def export_lines(target: Cluster, fleet: FleetName) -> Exported:
    """The positions of what is copied now, as lines.

    Raises: RefusedError without a catalog, or where no partition that it has has a position: who
    takes that for an export has lost the last good one; UnknownVersionError; as `read_control`.
    """
    view = await read_catalog(target, fleet)
    found = exported(view, await _positions(target, fleet))
    if found.without and not found.lines:
        raise RefusedError(
            f"{target.name}: not one of the {len(found.without)} partitions that fleet {fleet!r}"
            " copies has a position. They are gone, or no mirror has begun yet.",
            hint="Keep the last export: it may be what puts them back.",
        )
    return found


async def import_positions(
    target: Cluster,
    sources: Mapping[ClusterAlias, Callable[[], Cluster]],
    fleet: FleetName,
    wanted: Sequence[Position],
    clock: Clock,
) -> Imported:
    """Write the positions of an export that are gone.

    Only sources of these are opened: one that is dead is in nobody's way but its own.

    Raises: RefusedError with every line that does not fit; nothing was written then. The error of
    a slot that could not be written later names those that were, and the same import can be run
    again.
    """
    view = await read_catalog(target, fleet)
    known = await _positions(target, fleet)
    _refuse(unfit(wanted, view, known), "Nothing was written.")
    missing = [one for one in wanted if one.identity not in known]
    _refuse(unlinked(missing, view, sources), f"Nothing was written. {_UNLINKED}")
    _refuse(await _outside(missing, view, target, sources, fleet), "Nothing was written.")
    copies = _Behind(target, view)
    _refuse(await copies.go_on_behind(missing), f"Nothing was written. {_OLDER}")
    await _write_all(copies, fleet, missing, clock)
    return Imported(len(missing), len(wanted) - len(missing))


def _refuse(troubles: Sequence[str], hint: str) -> None:
    """Raises: RefusedError when there are any."""
    if troubles:
        raise RefusedError(f"{shortened(troubles)}.", hint=hint)


def positions_of(file: Path) -> list[Position]:
    """What an export has, read whole before a cluster is asked.

    Raises: ConfigError for a file that cannot be read; as `positions_in`.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    return positions_in(lines, str(file))


async def export_with(
    estate: Estate, target: str, open_one: Callable[[Estate, str], Cluster]
) -> Exported:
    """As `export_lines`, on the target of an estate, which `open_one` opens. Raises: the same."""
    async with open_one(estate, target) as cluster:
        return await export_lines(cluster, estate.fleet_of(target))


async def import_with(
    estate: Estate,
    target: str,
    wanted: Sequence[Position],
    open_one: Callable[[Estate, str], Cluster],
) -> Imported:
    """As `import_positions`, on the clusters of an estate, which `open_one` opens.

    Raises: the same.
    """
    links = estate.links_into(target)
    sources = {link.source: partial(open_one, estate, link.source) for link in links}
    async with open_one(estate, target) as cluster:
        fleet = estate.fleet_of(target)
        return await import_positions(cluster, sources, fleet, wanted, SystemClock())


async def _positions(target: Cluster, fleet: FleetName) -> dict[PartitionIdentity, Position]:
    found: dict[PartitionIdentity, Position] = {}

    def take(record: Record) -> None:
        entry = codec.decode(record.key, record.value)
        if isinstance(entry, Position) and entry.fault is None:
            found[entry.identity] = entry
        elif isinstance(entry, Position | RemovedPosition):
            found.pop(entry.identity, None)

    await read_control(target, control_topic(fleet, ControlKind.POSITIONS), take)
    return found


async def _outside(
    missing: Sequence[Position],
    view: CatalogView,
    target: Cluster,
    sources: Mapping[ClusterAlias, Callable[[], Cluster]],
    fleet: FleetName,
) -> list[str]:
    """Positions that the logs of either side do not have yet.

    What retention took of a source since then is in nobody's way: the mirror meets it, and tells
    the range.
    """
    entries = [view.partitions[one.identity] for one in missing]
    source_ends: dict[ClusterAlias, _Offsets] = {}
    for alias in {entry.link.source for entry in entries}:
        wanted = [entry.source for entry in entries if entry.link.source == alias]
        source_ends[alias] = await _source_ends(
            alias, sources[alias], wanted, partial(view.check_source, alias, fleet=fleet)
        )
    copied_to = (entry.target for entry in entries)
    target_ends = await _listed(target, copied_to, LATEST, Isolation.READ_UNCOMMITTED)
    troubles = []
    for one, entry in zip(missing, entries, strict=True):
        end = source_ends[entry.link.source][entry.source]
        if one.next_source > end:
            text = f"{name_of(entry)} ends at {end} at the source, below {one.next_source}"
            troubles.append(text)
        elif one.next_target > target_ends[entry.target]:
            end = target_ends[entry.target]
            troubles.append(f"{entry.target} ends at {end}, below {one.next_target}")
    return troubles


async def _source_ends(
    alias: ClusterAlias,
    open_one: Callable[[], Cluster],
    wanted: Sequence[TopicPartition],
    check: Callable[[ClusterId], None],
) -> _Offsets:
    """Where logs of a source end, once `check` has found that it is the one that is meant.

    Raises: MirrorfleetError; its hint says a way on.
    """
    try:
        async with open_one() as source:
            check(source.cluster_id)
            return await _listed(source, wanted, LATEST, Isolation.READ_UNCOMMITTED)
    except MirrorfleetError as error:
        way_on = f"Nothing was written. A file without the lines of {alias} needs nothing of it."
        error.hint = f"{error.hint} {way_on}".lstrip()
        raise


async def _listed(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> _Offsets:
    """An offset of each log, all asked for at once. Raises: BrokerError of a partition."""
    answers = await list_offsets(cluster, dict.fromkeys(partitions, spec), isolation=isolation)
    return {at: _offset_of(answer) for at, answer in answers.items()}


def _offset_of(answer: ListedOffset | BrokerError) -> int:
    if isinstance(answer, BrokerError):
        raise answer
    return answer.offset


class _Behind:
    """Whether copies go on behind positions: then source records would be copied again.

    A copy whose end has not moved since the last look is not read again.
    """

    def __init__(self, target: Cluster, view: CatalogView) -> None:
        self.target = target
        self.view = view
        self._seen_to: dict[TopicPartition, int] = {}

    async def go_on_behind(self, positions: Sequence[Position]) -> list[str]:
        """Positions behind which something was committed, or was and is deleted.

        Raises: MirrorfleetError: the target does not tell all of it.
        """
        copies = {self._at(one): one for one in positions}
        ends = await _listed(self.target, copies, LATEST)
        moved = [at for at, end in ends.items() if self._seen_to.get(at) != end]
        starts = await _listed(self.target, moved, EARLIEST)
        found = []
        for at in moved:
            trouble = await self._behind(at, copies[at], starts[at], ends[at])
            if trouble:
                found.append(trouble)
            else:
                self._seen_to[at] = ends[at]
        return found

    async def _behind(self, at: TopicPartition, one: Position, start: int, end: int) -> str:
        name, position = name_of(self.view.partitions[one.identity]), one.next_target
        if end <= position + 1:
            first = None  # a commit is a record and a marker, and of ours one marker may be there
        else:
            first = await first_committed(self.target, at, max(start, position), end)
        if first is not None:
            return f"{name} was copied on: {at} has records from {first} on, behind {position}"
        if start > position + 1:  # one more is the marker of the last commit
            return f"{at} begins at {start}: {name} may have been copied on behind {position}"
        return ""

    def _at(self, one: Position) -> TopicPartition:
        return self.view.partitions[one.identity].target


async def _write_all(
    copies: _Behind, fleet: FleetName, missing: Sequence[Position], clock: Clock
) -> None:
    """Write positions slot by slot. Raises: as `_write`; its hint says what was written before."""
    slots: dict[int, tuple[CatalogPartition, list[Position]]] = {}
    for one in missing:
        entry = copies.view.partitions[one.identity]
        slots.setdefault(entry.slot, (entry, []))[1].append(one)
    written: dict[int, int] = {}
    try:
        for slot, (entry, positions) in slots.items():
            for begin in range(0, len(positions), _A_WRITE):
                some = positions[begin : begin + _A_WRITE]
                await _write(copies, fleet, entry, some, clock)
                written[slot] = begin + len(some)
    except MirrorfleetError as error:
        before = ", ".join(f"{count} of slot {slot}" for slot, count in written.items()) or "none"
        error.hint = f"{error.hint} Positions written before: {before}. {_AGAIN}".lstrip()
        raise


async def _write(
    copies: _Behind,
    fleet: FleetName,
    entry: CatalogPartition,
    positions: Sequence[Position],
    clock: Clock,
) -> None:
    """Write positions of one slot, if they are gone still once nobody else can copy it.

    The worker that is fenced reads what was written.
    """
    target = copies.target
    control = control_of(fleet, entry.slot)
    hint = f"Nothing of this was written to slot {entry.slot}."

    async def look() -> None:
        now = await _committed(target, control[0])
        _refuse(unfit(positions, copies.view, now, exactly=True), hint)
        _refuse(await copies.go_on_behind(positions), f"{hint} {_OLDER}")

    await write_by_order(
        target,
        transactional_id(fleet, entry.link.source, entry.slot),
        control,
        [codec.encode(each) for each in positions],
        clock.now_ms(),
        what="positions as",
        on_taken=look,
    )


async def _committed(target: Cluster, at: TopicPartition) -> dict[PartitionIdentity, Position]:
    """A slot's positions, all that are committed.

    Raises: BrokerError CONCURRENT_TRANSACTIONS: its spare id hides some behind what it has open;
    RefusedError while its owner goes on with that: it is not fenced, and would write over ours.
    """
    _, end = await log_bounds(target, at, isolation=Isolation.READ_UNCOMMITTED)
    bounds = await log_bounds(target, at)
    if bounds[1] < end:
        raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{target.name}: reading {at}")
    recalled = await recall(target, at, None, bounds)
    if recalled.quarantine() is not None:
        raise RefusedError(
            f"{target.name}: the owner of slot {at.partition} goes on without a partition whose"
            " copy takes nothing, and would write over this.",
            hint="Import again when `mirrorfleet status` shows no quarantined partition.",
        )
    found = recalled.positions()
    return {identity: one for identity, one in found.items() if one.fault is None}
