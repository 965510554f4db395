"""The emergency stop of a link: each of its slots is fenced and marked, also from workers that
nobody can reach.

    InitProducerId of the slot ─> its open transaction is aborted, its owner is refused from now on
    fence record in positions  ─> whoever takes the slot after that finds it before its own barrier,
                                  and waits until an operator lifts it

The record is written with the producer id that fenced, so there is no moment in between: who takes
the id before the record is written makes the write fail, and we begin again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.core.ids import Link, SlotNumber, TopicPartition
from mirrorfleet.core.names import spare_id, transactional_id
from mirrorfleet.kafka.fenced_writer import (
    BY_ORDER_S,
    FencedWriter,
    by_order,
    write_by_order,
)
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.records import positions
from mirrorfleet.records.topics import ControlKind, control_topic

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.positions import Fence, Lifted

AT_ONCE: Final = 8


async def slots_of_link(target: Cluster, fleet: FleetName, link: Link) -> tuple[SlotNumber, ...]:
    """The slots of a link as the catalog has them.

    Raises: RefusedError when the fleet has no such link, with those that it has.
    """
    view = await read_catalog(target, fleet)
    links = {entry.link: entry.slots for entry in view.links.values()}
    if link not in links:
        known = ", ".join(sorted(map(str, links))) or "none"
        raise RefusedError(f"fleet {fleet} has no link {link}.", hint=f"Links: {known}.")
    return links[link]


async def mark(
    target: Cluster, fleet: FleetName, link: Link, entry: Fence | Lifted, now_ms: int
) -> dict[SlotNumber, str]:
    """Fence each slot of a link, or lift its fence; the trouble of each, empty when it is done.

    Raises: as `slots_of_link`.
    """
    slots = await slots_of_link(target, fleet, link)
    gate = asyncio.Semaphore(AT_ONCE)
    topic = control_topic(fleet, ControlKind.POSITIONS)

    async def one(slot: SlotNumber) -> str:
        async with gate:
            try:
                name = transactional_id(fleet, link.source, slot)
                await write_by_order(
                    target,
                    name,
                    TopicPartition(topic, slot),
                    [positions.encode(entry)],
                    now_ms,
                    what="fencing",
                )
                await _fence(target, spare_id(fleet, link.source, slot))
            except MirrorfleetError as error:
                return str(error)
        return ""

    async with asyncio.TaskGroup() as group:
        tasks = {slot: group.create_task(one(slot), name=f"fence:{slot}") for slot in slots}
    return {slot: task.result() for slot, task in tasks.items()}


async def _fence(target: Cluster, name: str) -> None:
    """Whoever copies with a slot's spare id stops; who takes it later finds the mark before."""
    writer = FencedWriter(target, name, may_take=by_order, deadline_s=BY_ORDER_S)
    try:
        await writer.take()
    finally:
        writer.close()
