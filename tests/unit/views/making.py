"""A fleet told in records, for the tests of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from mirrorfleet.core.ids import ClusterAlias, FleetName, PartitionIdentity, SlotNumber
from mirrorfleet.core.ids import SourceOffset as S
from mirrorfleet.core.ids import TargetOffset as T
from mirrorfleet.records import events, progress, samples
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition
from mirrorfleet.records.events import Event
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.records.samples import Sample, Verdict
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.views.told import Fleet, Told
from tests.unit.records.making import CLUSTER, LINK, identity

NOW = 1_000_000
EAST, WEST = LINK


def entry(partition: int = 0, *, topic: str = "orders", slot: int = 3) -> CatalogPartition:
    return CatalogPartition(
        identity=identity_of(topic, partition),
        link=LINK,
        source_topic=topic,
        target_topic=f"east.{topic}",
        slot=SlotNumber(slot),
        rule="all",
    )


def identity_of(topic: str, partition: int) -> PartitionIdentity:
    return identity(partition, source=UUID(bytes=topic.encode().ljust(16, b"\1")[:16]))


def report(of: CatalogPartition, **changed: object) -> PartitionProgress:
    """100 of [5, 110) are copied, 10 wait, 10 more are held by open transactions."""
    made = PartitionProgress(
        identity=of.identity,
        source_topic=of.source_topic,
        target_topic=of.target_topic,
        next_source=S(100),
        next_target=T(90),
        high_watermark=S(120),
        last_stable=S(110),
        log_start=S(5),
        records=95,
        bytes=9_500,
        last_progress_ms=NOW - 1_000,
        oldest_uncopied_ms=None,
        state="live",
    )
    return replace(made, **changed)  # type: ignore[arg-type]  # fields by name, as the caller knows them


def snapshot(
    *partitions: PartitionProgress, slot: int = 3, time_ms: int = NOW - 500, owner: str = "worker-1"
) -> Progress:
    return Progress(
        slot=SlotNumber(slot),
        time_ms=time_ms,
        owner=owner,
        state="copying",
        partitions=partitions,
    )


def sample(of: CatalogPartition, **changed: object) -> Sample:
    made = Sample(
        time_ms=NOW - 2_000,
        source=EAST,
        target=WEST,
        topic=of.source_topic,
        partition=of.identity.partition,
        target_topic=of.target_topic,
        slot=of.slot,
        state="live",
        lag_records=10,
        time_lag_ms=1_400,
        propagation_ms=30,
        backlog_age_ms=None,
        eta_ms=5_000,
        headroom_ms=86_400_000,
        rate_records_s=2.0,
        rate_bytes_s=200.0,
        source_end=110,
        next_source=S(100),
        verdict=Verdict.OK,
        rule="within the time that is allowed",
    )
    return replace(made, **changed)  # type: ignore[arg-type]  # as above


def fleet(
    entries: Sequence[CatalogPartition],
    *told: Progress | Sample | Event,
    trouble: str = "",
    read_ms: int | None = None,
    name: str = "west",
) -> Fleet:
    """The fleet of west, as its topics say."""
    state = Told()
    for one in told:
        match one:
            case Progress():
                state.apply(ControlKind.PROGRESS, *progress.encode(one))
            case Sample():
                state.apply(ControlKind.SAMPLES, *samples.encode(one))
            case Event():
                state.apply(ControlKind.EVENTS, *events.encode(one))
    link = CatalogLink(
        link=LINK, source_cluster=CLUSTER, target_cluster=CLUSTER, slots=(SlotNumber(3),)
    )
    return Fleet(
        target=ClusterAlias("west"),
        name=FleetName(name),
        partitions={one.identity: one for one in entries},
        links={EAST: link},
        told=state,
        trouble=trouble,
        read_ms=read_ms,
    )
