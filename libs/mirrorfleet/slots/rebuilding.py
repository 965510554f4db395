"""Positions that are gone though something was copied: made again from the map, or refused.

    no position, nothing was ever copied      begin, as every new partition
    no position, the map ends where the target does     the end of the map is the position
    no position, the map is short, or gone    stop: a guess would lose or repeat records

That something was copied is told by the map, by the slot's last progress, or by what this process
knew. Segments are written in the transaction of their data, so the map is exact or not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.kafka.stored import first_committed
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.positions import Position
from mirrorfleet.slots import healing, ledger, succession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.offsets.index import PartitionMap
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender


async def rebuild(runner: SlotRunner, sender: Sender) -> None:
    """Fill in what is missing of the slot's positions; what cannot be is stopped.

    Raises: MirrorfleetError: a side does not answer; nothing is known then.
    """
    known = runner.slot.known
    for identity in [i for i, p in runner.unstarted.items() if healing.is_lost(p)]:
        del runner.unstarted[identity]  # looked into again
    entries = succession.not_followed(runner, list(runner.entries.values()))
    missing = [entry for entry in entries if entry.identity not in known]
    if not missing:
        return
    copied = await _copied_before(runner, missing)
    runner.slot.ever_known |= copied
    if known and not copied:
        return  # new partitions of a slot that works
    maps = await runner.mender.maps_of({entry.identity for entry in missing})
    made: list[Position] = []
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
            _refuse(runner, entry, why)
    if made:
        await sender.commit_control(ledger.control_entries(runner, made, None))
        known.update({position.identity: position for position in made})
        text = f"slot {runner.number}: {len(made)} positions were gone and made from the map"
        runner.mender.tell(EventKind.POSITIONS_REBUILT, text)


async def _copied_before(
    runner: SlotRunner, missing: Sequence[CatalogPartition]
) -> set[PartitionIdentity]:
    """Partitions of which something is known to have been copied."""
    told = await succession.last_told(runner)
    return {
        entry.identity
        for entry in missing
        if entry.identity in runner.slot.ever_known
        or (entry.identity in told and told[entry.identity].records > 0)
    }


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
    made.append(
        Position(
            identity=entry.identity,
            next_source=known.source_end,
            leader_epoch=-1,
            next_target=known.target_end,
            records=known.records_from(TargetOffset(0)),
            bytes=0,
            time_ms=runner.clock.now_ms(),
        )
    )
    return ""


def _refuse(runner: SlotRunner, entry: CatalogPartition, why: str) -> None:
    text = (
        f"its position is gone and cannot be made again: {why}. Put it back with"
        " `mirrorfleet positions import`"
    )
    fault = Fault(FaultReason.POSITION_LOST, SourceOffset(-1), text)
    healing.hold(runner, entry, fault)
