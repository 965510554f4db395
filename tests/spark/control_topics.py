"""Records of a topic and of the control topics that speak of it, without brokers."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import (
    ClusterAlias,
    Link,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
)
from mirrorfleet.records import catalog, events, positions
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.segments import Run, Segment, encode_segment
from tests.spark.frames import identity

Keyed = tuple[bytes | None, bytes | None]
Record = tuple[int, int, int, int, bytes | None, bytes | None, None]

FIRST = identity()
AGAIN = replace(identity(source=2), incarnation=1)
LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
BEGUN_MS = 50_000


def records(*numbers: int, start: int = 0, partition: int = 0) -> list[Record]:
    """These records, one after the other from offset `start`."""
    return [
        (partition, start + place, number, 0, None, b"%d" % number, None)
        for place, number in enumerate(numbers)
    ]


def control(*entries: Keyed, at: int = BEGUN_MS) -> list[Record]:
    return [(0, n, at, 0, key, value, None) for n, (key, value) in enumerate(entries)]


def partition(
    of: PartitionIdentity, state: CatalogState, start: str = "earliest"
) -> CatalogPartition:
    return CatalogPartition(
        identity=of,
        link=LINK,
        source_topic="orders",
        target_topic="east.orders",
        slot=SlotNumber(0),
        state=state,
        start=start,
    )


def entry(of: PartitionIdentity, state: CatalogState, start: str = "earliest") -> Keyed:
    return catalog.encode(partition(of, state, start))


def segment(of: PartitionIdentity, *runs: Run) -> Keyed:
    return None, encode_segment(Segment(SlotNumber(0), 1_000, ((of, runs),)))


def position(of: PartitionIdentity, at: int) -> Keyed:
    stands = positions.Position(
        identity=of,
        next_source=SourceOffset(at),
        leader_epoch=0,
        next_target=TargetOffset(0),
        records=0,
        bytes=0,
        time_ms=0,
    )
    return positions.encode(stands)


def gap(first: int, end: int, time_ms: int, cause: str) -> Keyed:
    return events.encode(
        events.Event(
            kind="gap",
            time_ms=time_ms,
            writer="w",
            cause=cause,
            link=LINK,
            topic="orders",
            partition=0,
            first=first,
            end=end,
        )
    )
