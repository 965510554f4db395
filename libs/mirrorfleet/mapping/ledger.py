"""The gap ledger of some partitions, out of a fleet's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import ClusterId
from mirrorfleet.mapping.catalog import read_control
from mirrorfleet.offsets.ledger import KINDS, Ledger, Told, ledger_of
from mirrorfleet.planning.entries import Copied, copy_of
from mirrorfleet.records import catalog, events
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.events import Event
from mirrorfleet.records.topics import ControlKind, control_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mirrorfleet.core.ids import FleetName, PartitionIdentity
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.wire.records import Record

OfSource = tuple[ClusterId, Copied]
"""What the incarnations of a partition have in common, of which source."""
_WORDS: Final = tuple(f'"{kind}"'.encode() for kind in KINDS)
"""One of them is in each event that is wanted: others, far more, are not decoded."""


async def read_ledgers(
    target: Cluster, fleet: FleetName, entries: Sequence[CatalogPartition]
) -> Mapping[PartitionIdentity, Ledger]:
    """What the ledger says of each of them, as it is copied now.

    Raises: as `read_control`.
    """
    ended: dict[OfSource, int] = {}
    if any(entry.identity.incarnation for entry in entries):
        ended = await _ended(target, fleet)
    told: list[Told] = []

    def take(record: Record) -> None:
        value = record.value
        if value is None or not any(word in value for word in _WORDS):
            return
        event = events.decode(value)
        if isinstance(event, Event):
            told.append(Told(record.timestamp, event))

    await read_control(target, control_topic(fleet, ControlKind.EVENTS), take)
    return {each.identity: ledger_of(each, told, ended.get(_of_source(each))) for each in entries}


async def _ended(target: Cluster, fleet: FleetName) -> dict[OfSource, int]:
    """When the last incarnation that has ended did, of each partition that had some."""
    found: dict[OfSource, int] = {}

    def take(record: Record) -> None:
        entry = catalog.decode(record.key, record.value)
        if isinstance(entry, CatalogPartition) and entry.state is CatalogState.REMOVED:
            at = _of_source(entry)
            found[at] = max(found.get(at, record.timestamp), record.timestamp)

    await read_control(target, control_topic(fleet, ControlKind.CATALOG), take)
    return found


def _of_source(entry: CatalogPartition) -> OfSource:
    return entry.identity.source_cluster, copy_of(entry)
