"""Catalog entries and snapshots for tests of lag."""

from __future__ import annotations

from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.lagging.board import Board, Place
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.progress import PartitionProgress, Progress
from tests.unit.records.making import LINK, identity

SLOT = SlotNumber(1)


def entry(
    partition: int = 0,
    *,
    retention_ms: int | None = None,
    state: CatalogState = CatalogState.ACTIVE,
    topic: str = "orders",
) -> CatalogPartition:
    return CatalogPartition(
        identity=identity(partition),
        link=LINK,
        source_topic=topic,
        target_topic=f"east.{topic}",
        slot=SLOT,
        state=state,
        source_retention_ms=retention_ms,
    )


def said(  # noqa: PLR0913 - a snapshot has that many parts, all by name
    position: int,
    *,
    partition: int = 0,
    end: int | None = None,
    high_watermark: int | None = None,
    log_start: int = 0,
    state: str = "live",
    fault: str = "",
    oldest_ms: int | None = None,
    moved_ms: int = 0,
) -> PartitionProgress:
    stable = position if end is None else end
    return PartitionProgress(
        identity=identity(partition),
        source_topic="orders",
        target_topic="east.orders",
        next_source=SourceOffset(position),
        next_target=TargetOffset(position),
        high_watermark=SourceOffset(stable if high_watermark is None else high_watermark),
        last_stable=SourceOffset(stable),
        log_start=SourceOffset(log_start),
        records=position,
        bytes=100 * position,
        last_progress_ms=moved_ms,
        oldest_uncopied_ms=oldest_ms,
        state=state,
        fault=fault,
    )


def snapshot(at_ms: int, *partitions: PartitionProgress) -> Progress:
    return Progress(
        slot=SLOT, time_ms=at_ms, owner="w", state="copying", partitions=tuple(partitions)
    )


def hear(board: Board, told: Progress, now_ms: int) -> None:
    """The board hears a snapshot, later in the log the later it comes."""
    board.heard(told, now_ms, Place(now_ms, now_ms))
