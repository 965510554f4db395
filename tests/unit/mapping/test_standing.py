"""Where partitions stand, as the control topics say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.loss import Look, loss
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID, FleetName, SourceOffset
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.mapping import catalog
from mirrorfleet.mapping import standing as module
from mirrorfleet.records import progress
from mirrorfleet.records.progress import SNAPSHOTS, Progress
from mirrorfleet.wire.records import Record
from tests.unit.lagging.making import entry, said, snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

HOUR_MS = 3_600_000
PROGRESS = TopicMeta("__mirrorfleet.west.progress", NO_TOPIC_ID, ErrorCode.NONE, True, {})


async def test_the_newest_word_of_a_slot_is_the_last_one_and_as_old_as_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stamp = 10 * HOUR_MS
    first = progress.encode(snapshot(stamp + HOUR_MS, said(5)))
    second = progress.encode(snapshot(stamp - HOUR_MS, said(9, moved_ms=stamp - HOUR_MS - 200)))

    async def topic(*_: object, **__: object) -> TopicMeta:
        return PROGRESS

    async def metadata(_: object) -> SimpleNamespace:
        return SimpleNamespace(topics={PROGRESS.name: PROGRESS})

    async def bounds(*_: object) -> dict[int, tuple[int, int]]:
        return {3: (0, 1_000)}

    async def read(*at: object) -> AsyncIterator[Record]:
        assert at[1:] == (PROGRESS, 3, 1_000 - SNAPSHOTS, 1_000)
        yield Record(998, stamp - 1_000, *first)
        yield Record(999, stamp, *second)

    monkeypatch.setattr(catalog, "partition_bounds", bounds)
    monkeypatch.setattr(catalog, "committed_records", read)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata, topic=topic))
    (found,) = await module.newest_progress(cluster, FleetName("west"))

    assert (found.time_ms, found.partitions[0].next_source) == (stamp, 9)
    assert found.partitions[0].last_progress_ms == stamp - 200


async def test_a_faulted_partition_is_told_with_what_to_do_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = str(loss(SourceOffset(5), Look(8, 20)))
    told = snapshot(1_000, said(5, fault=lost), said(9, partition=1))
    entries = [entry(0), entry(1)]

    async def catalog_of(*_: object) -> SimpleNamespace:
        return SimpleNamespace(partitions={each.identity: each for each in entries})

    async def newest(*_: object) -> list[Progress]:
        return [told]

    monkeypatch.setattr(module, "read_catalog", catalog_of)
    monkeypatch.setattr(module, "newest_progress", newest)
    faulted, well = await module.standing(cast("Cluster", None), FleetName("west"), 1_000)

    assert str(faulted["next"]).endswith(
        "`mirrorfleet resolve orders-0 --target west --from east --accept-gap 5..8`."
    )
    assert well["next"] is None
    first, second = module.unhealthy(faulted).splitlines()
    assert first.startswith("unhealthy: orders-0 of east->west: retention-overtook at source")
    assert second.startswith("  next: The source deleted records")
