"""All runs of a slot's partitions: archive and segments read once, as they are now."""

from __future__ import annotations

from mirrorfleet.core.ids import FleetName, PartitionIdentity, SlotNumber
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.packing import live_blocks
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.records.archive import Block, decode, encode_key
from mirrorfleet.records.segments import Run
from mirrorfleet.records.topics import ControlKind

Runs = dict[PartitionIdentity, list[Run]]


async def runs_of(target: Cluster, fleet: FleetName, slot: SlotNumber, clock: Clock) -> Runs:
    """Runs by rising target offset; a run that is packed and not freed yet comes once.

    Raises: UnknownVersionError, CorruptBatchError, BrokerError (OFFSET_OUT_OF_RANGE when segments
    are freed meanwhile: try again), DeadlineError.
    """
    store = KafkaMapStore(target, fleet, clock)
    found: dict[PartitionIdentity, dict[tuple[int, int], Run]] = {}
    try:
        segments = await store.bounds(ControlKind.SEGMENTS, slot)
        archive = await store.bounds(ControlKind.ARCHIVE, slot)
        stored = live_blocks(await store.archive(slot, *archive))
        for key in sorted(stored):
            block = decode(encode_key(key), stored[key])
            if isinstance(block, Block):
                _add(found.setdefault(block.identity, {}), block.runs)
        for record in await store.segments(slot, *segments):
            for identity, runs in record.segment.runs:
                _add(found.setdefault(identity, {}), runs)
    finally:
        store.close()
    return {
        identity: sorted(runs.values(), key=lambda run: run.target_start)
        for identity, runs in found.items()
    }


def _add(known: dict[tuple[int, int], Run], runs: tuple[Run, ...]) -> None:
    for run in runs:
        known[run.source_start, run.target_start] = run
