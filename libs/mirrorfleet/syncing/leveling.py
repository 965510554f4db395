"""Raising a fleet's format level: by command, when every worker is of a build that knows it.

    upgrade all processes (nothing changes) -> raise the level -> new records in the new format
                  └── take any back ──┘          └── the build before refuses from here on

What a level means is in `records.formats`. The active `sync` goes on at the new level by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrorfleet.core.errors import BrokerError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import FleetName
from mirrorfleet.core.names import service_id
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.group_members import describe_groups
from mirrorfleet.mapping.catalog import no_catalog
from mirrorfleet.records.formats import FIRST_LEVEL, KNOWN_LEVEL
from mirrorfleet.records.members import claim_brought
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.syncing.store import Store


class Levels(NamedTuple):
    """Where a fleet stands."""

    in_force: int
    workers: dict[str, int]
    """The newest level that each living worker knows."""


async def levels(cluster: Cluster, fleet: FleetName, store: Store) -> Levels:
    """The level in the catalog, and what the workers know.

    Raises: UnknownVersionError (the fleet is ahead of this build); RefusedError: there is no such
    fleet; MirrorfleetError: no answer.
    """
    await store.refresh()
    if store.book.config is None:
        raise no_catalog(cluster, fleet)
    group = service_id(fleet, "mirror")
    found = (await describe_groups(cluster, [group]))[group]
    if isinstance(found, BrokerError):
        raise found
    known = {member.client_id: _level_of(member.brings) for member in found.members}
    return Levels(store.level, known)


async def raise_level(cluster: Cluster, fleet: FleetName, store: Store, wanted: int) -> Levels:
    """Raise the level to `wanted`; where the fleet stood before.

    Raises: RefusedError, and nothing is written, when this build or a worker does not know it, or
    the level is not above the one in force; as `levels` and `Store.publish`.
    """
    before = await levels(cluster, fleet, store)
    check_raise(fleet, before, wanted)
    await store.raise_level(wanted)
    return before


async def asked(cluster: Cluster, fleet: FleetName, wanted: int | None) -> Levels:
    """Where a fleet stands, after its level was raised to `wanted` (None: as it is).

    Raises: as `levels` and `raise_level`.
    """
    store = Store(cluster, fleet, SystemClock())
    try:
        if wanted is not None:
            await raise_level(cluster, fleet, store, wanted)
        return await levels(cluster, fleet, store)
    finally:
        store.close()


def check_raise(fleet: FleetName, before: Levels, wanted: int) -> None:
    """Raises: RefusedError as `raise_level`."""
    if wanted <= before.in_force:
        raise RefusedError(
            f"fleet {fleet} writes format level {before.in_force} already, and records of it stay.",
            hint="A level is never lowered; older builds cannot read what is written.",
        )
    if wanted > KNOWN_LEVEL:
        raise RefusedError(
            f"this build knows format levels up to {KNOWN_LEVEL}, not {wanted}.",
            hint="Run the command of the release that brings the level.",
        )
    behind = sorted(name for name, level in before.workers.items() if level < wanted)
    if behind:
        raise RefusedError(
            f"{len(behind)} workers of fleet {fleet} do not know format level {wanted}:"
            f" {', '.join(behind)}.",
            hint="Upgrade them first; they would stop at the first record of it.",
        )


def _level_of(brings: bytes) -> int:
    try:
        return claim_brought(brings).level
    except MirrorfleetError:
        return FIRST_LEVEL  # it joins just now, or is of a build that says nothing
