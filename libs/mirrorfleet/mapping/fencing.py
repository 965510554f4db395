"""The emergency stop of a link: each of its slots is fenced and marked, also from workers that
nobody can reach.

    InitProducerId of the slot ─> its open transaction is aborted, its owner is refused from now on
    fence record in positions  ─> whoever takes the slot after that finds it before its own barrier,
                                  and waits until an operator lifts it

The record is written with the producer id that fenced, so there is no moment in between: who takes
the id before the record is written makes the write fail, and we begin again. An owner has one of
two ids, and a snapshot of his hides what is before it: so each id writes the record, and the spare
one first and last. First, since the main one may be out of order, which is when the spare one
copies; last, for an owner who changed to it meanwhile.

A slot of whose positions or segments a leader does not answer is not fenced: what its owner left
open there could be committed by the record, though it was aborted. It is told, and can be repeated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import Link, SlotNumber
from mirrorfleet.core.names import spare_id, transactional_id
from mirrorfleet.kafka.fenced_writer import write_by_order
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.records import positions
from mirrorfleet.records.positions import Fence
from mirrorfleet.records.topics import control_of

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.positions import Lifted

AT_ONCE: Final = 8


async def slots_of_link(target: Cluster, fleet: FleetName, link: Link) -> tuple[SlotNumber, ...]:
    """The slots of a link as the catalog has them.

    Raises: RefusedError when the fleet has no such link, with those that it has.
    """
    view = await read_catalog(target, fleet)
    return view.known_link(link, fleet).slots


async def mark(
    target: Cluster, fleet: FleetName, link: Link, entry: Fence | Lifted, now_ms: int
) -> dict[SlotNumber, str]:
    """Fence each slot of a link, or lift its fence; the trouble of each, empty when it is done.

    Raises: as `slots_of_link`.
    """
    slots = await slots_of_link(target, fleet, link)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(slot: SlotNumber) -> str:
        main = transactional_id(fleet, link.source, slot)
        spare = spare_id(fleet, link.source, slot)
        control, record = control_of(fleet, slot), positions.encode(entry)
        troubles: dict[str, str] = {}
        async with gate:
            for name in (spare, main, spare) if isinstance(entry, Fence) else (main,):
                if name in troubles:
                    continue  # the other one stops an owner that copies with it all the same
                try:
                    await write_by_order(target, name, control, [record], now_ms, what="fencing")
                except MirrorfleetError as error:
                    troubles[name] = str(error)
        return next(iter(troubles.values()), "")

    async with asyncio.TaskGroup() as group:
        tasks = {slot: group.create_task(one(slot), name=f"fence:{slot}") for slot in slots}
    return {slot: task.result() for slot, task in tasks.items()}
