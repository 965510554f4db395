"""Positions that are gone, or older than the copy: made again from the map, or refused.

    no position, nothing was ever copied              begin, as every new partition
    none, or one that the map is ahead of:
        the map ends where the target does            the end of the map is the position
            the map is short, or gone                     stop: a guess would lose or repeat records
    one that the map does not come up to              go on, and say which groups cannot be placed

That something was copied is told by the map, by the slot's last progress, or by what this process
knew. Segments are written in the transaction of their data, so the map is exact or not there. A
partition that is stopped has a position that says so, which nobody goes on from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.kafka.stored import first_committed
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.incarnations import FROM_THE_START, offset_of
from mirrorfleet.records.positions import Position, PositionFault
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import healing, ledger, succession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.offsets.ahead import Ends
    from mirrorfleet.offsets.index import PartitionMap
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

_NOTHING: Final = TargetOffset(0)
_NAMED: Final = 3
"""Partitions in one event."""

_log = logger(__name__)


async def rebuild(runner: SlotRunner, sender: Sender) -> None:
    """Fill in what is missing of the slot's positions; what cannot be is stopped.

    What is left behind is looked at when it goes on: its log may not answer now.

    Raises: MirrorfleetError: a side does not answer; nothing is known then.
    """
    known = runner.slot.known
    for waiting in filter(healing.is_lost, runner.unstarted.values()):
        waiting.fault = None  # looked into again; what was told of it is not told once more
    able = [e for e in runner.entries.values() if not healing.is_left_behind(runner, e.identity)]
    entries = await succession.not_followed(runner, able)
    older = await _older_than_the_map(runner, entries) | _lost(runner, entries)
    missing = [e for e in entries if e.identity in older or e.identity not in known]
    if not missing:
        return
    copied = older | await _copied_before(runner, missing)
    runner.slot.ever_known |= dict.fromkeys(copied)
    if known and not copied:
        return  # new partitions of a slot that works
    maps = await runner.mender.maps_of({entry.identity for entry in missing})
    made: list[Position] = []
    refused: list[Position] = []
    for entry in missing:
        identity = entry.identity
        found = maps.of(identity)
        if found is not None:
            why = await _made(runner, entry, found, made)
        elif identity in copied:
            why = "nothing of it is in the map"
        else:
            continue
        if why:
            refused.append(_refused(runner, entry, why))
    new = [each for each in refused if not _fault_of(known.get(each.identity))]
    if made or new:
        await sender.commit_control(ledger.control_entries(runner, [*made, *new], None))
        known.update({position.identity: position for position in (*made, *new)})
    if made:
        text = f"slot {runner.number}: {len(made)} positions were lost and made from the map"
        runner.mender.tell(EventKind.POSITIONS_REBUILT, text)


def _lost(runner: SlotRunner, entries: Sequence[CatalogPartition]) -> set[PartitionIdentity]:
    """Whose position says that it is lost; while one is left behind they wait for it, too: others
    would wait until the map is read for them.
    """
    if runner.wedges.left_behind:
        return set()
    known = runner.slot.known
    return {e.identity for e in entries if _fault_of(known.get(e.identity))}


def without_lost(runner: SlotRunner, entries: Sequence[CatalogPartition]) -> list[CatalogPartition]:
    """Those that have no position, or one to go on from; the others stand still."""
    found = []
    for entry in entries:
        fault = _fault_of(runner.slot.known.get(entry.identity))
        if fault is None:
            found.append(entry)
        else:
            healing.hold_lost(runner, entry, fault.detail)
    return found


async def _older_than_the_map(
    runner: SlotRunner, entries: Sequence[CatalogPartition]
) -> set[PartitionIdentity]:
    """Partitions whose position lacks what the slot's map has."""
    known = runner.slot.known
    if not known:
        return set()  # the whole map is read for them
    copied = {
        each.identity: known[each.identity].next_target if each.identity in known else _NOTHING
        for each in entries
    }
    try:
        found = await runner.mender.compared_with(copied)
    except CorruptBatchError as error:
        _log.warning(
            "positions cannot be compared with segments",
            extra=fields(slot=runner.number, error=str(error)),
        )
        return set()
    if found.short:
        _tell_of_short(runner, found.short)
    return found.ahead


def _tell_of_short(runner: SlotRunner, short: Ends) -> None:
    """Segments are lost, and nothing makes them again: whoever moves a group must know, once."""
    known, told = runner.slot.known, runner.mender.short_told
    lacks = {at: (end, known[at].next_target) for at, end in short.items() if at in runner.entries}
    new = {at: lost for at, lost in lacks.items() if told.get(at) != lost}
    if not new:
        return
    told |= new
    named = [f"{runner.entries[at].target} [{end}, {copied})" for at, (end, copied) in new.items()]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    text = (
        f"slot {runner.number}: its segments lost what they had of the copies to"
        f" {', '.join(named[:_NAMED])}{more}: records are whole, but a group whose place is among"
        " these is set to the end of them, and skips what it has not read there. Set it by hand"
    )
    _log.error("the offset map is short", extra=fields(slot=runner.number, error=text))
    runner.mender.tell(EventKind.MAP_SHORT, text)
    runner.meters.map_short(len(named))


def _fault_of(position: Position | None) -> PositionFault | None:
    return None if position is None else position.fault


async def _copied_before(
    runner: SlotRunner, missing: Sequence[CatalogPartition]
) -> set[PartitionIdentity]:
    """Partitions of which something is known to have been copied."""
    told = await succession.last_told(runner)
    return {
        entry.identity
        for entry in missing
        if _had_something(entry, runner.slot.ever_known)
        or (entry.identity in told and told[entry.identity].records > 0)
    }


def _had_something(
    entry: CatalogPartition, known: Mapping[PartitionIdentity, Position | None]
) -> bool:
    """Whether who begins it as a new one could repeat or skip a record, by the position of once."""
    if entry.identity not in known:
        return False
    position = known[entry.identity]
    begins_alike = entry.start == FROM_THE_START or offset_of(entry.start) is not None
    is_bare = position is not None and not position.records and position.fault is None
    return not (is_bare and begins_alike)


async def _made(
    runner: SlotRunner, entry: CatalogPartition, known: PartitionMap, made: list[Position]
) -> str:
    """Put the position into `made`, or say why there is none."""
    at = entry.target
    try:
        start, end = await log_bounds(runner.target, at)
        beyond = await first_committed(runner.target, at, max(start, known.target_end), end)
    except CorruptBatchError as error:
        return str(error)
    if beyond is not None:
        return f"{at} has records from {beyond} on that the map, up to {known.target_end}, has not"
    before = runner.slot.known.get(entry.identity)
    made.append(
        Position(
            identity=entry.identity,
            next_source=known.source_end,
            leader_epoch=-1,
            next_target=known.target_end,
            records=known.records_from(TargetOffset(0)),
            bytes=0 if before is None else before.bytes,
            time_ms=runner.clock.now_ms(),
        )
    )
    return ""


def _refused(runner: SlotRunner, entry: CatalogPartition, why: str) -> Position:
    """Stop the partition; gives what makes every later owner look into it again."""
    text = (
        f"its position is gone, or older than its copy, and cannot be made again: {why}. Put it"
        " back with `mirrorfleet positions import`"
    )
    healing.hold_lost(runner, entry, text)
    nothing = start_position(entry.identity, SourceOffset(0), runner.clock.now_ms())
    position = runner.slot.known.get(entry.identity, nothing)
    fault = PositionFault(position.next_source, FaultReason.POSITION_LOST, text)
    return replace(position, fault=fault)
