"""Maps are as short as the logs are, those of removed partitions and of a standby as well."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.mapping.blocks import live_blocks
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.mapping.packing import Packed, Packer
from mirrorfleet.offsets.packing import GONE, Floor
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.segments import Segment
from mirrorfleet.runtime import metric_names
from services.checkpoint import service as module
from services.checkpoint.service import CheckpointService
from services.checkpoint.settings import Pack
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry
from tests.unit.mapping.lists import ListStore
from tests.unit.offsets.making import run_of
from tests.unit.standby.test_demotion import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.catalog import CatalogPartition

LIVE, REMOVED = entry(0), entry(1, state=CatalogState.REMOVED)
RUNS = (run_of(0, 5, 0), run_of(5, 9, 6))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> CheckpointService:
    """One that knows both partitions, and looks all the time; only one of them may go on."""

    async def look(
        _: LogFloors, sources: object, entries: Iterable[CatalogPartition]
    ) -> dict[PartitionIdentity, Floor]:
        del sources
        await asyncio.sleep(0)
        low = Floor(SourceOffset(10**6), TargetOffset(10**6))
        over = Floor(SourceOffset(GONE), TargetOffset(GONE))
        return {each.identity: low if each == LIVE else over for each in entries}

    async def nothing(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(LogFloors, "look", look)
    monkeypatch.setattr(module, "follow_catalog", nothing)
    context = replace(Fleet().context, settings={"prune_period_s": 1})
    made = CheckpointService(context)
    times = {"prune_period_s": 0.0, "pack_period_s": 0.0, "pack_at_least": 1}
    made._settings = made._settings.model_copy(update=times)
    monkeypatch.setattr(made._map, "step", nothing)
    for each in (LIVE, REMOVED):
        made._view.apply(each)
    return made


async def test_a_standby_forgets_what_both_logs_have_lost(service: CheckpointService) -> None:
    index = service._map.index
    for each in (LIVE, REMOVED):
        index.add(each.identity, RUNS)

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(service._read())
        await until(lambda: index.pieces == 1, deadline_s=5, what="shorter maps")
        reading.cancel()

    assert index.of(REMOVED.identity) is None


@pytest.mark.parametrize("pack", Pack)
async def test_the_archive_keeps_nothing_of_a_removed_partition_that_is_over(
    pack: Pack, service: CheckpointService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever packs: Spark does not prune."""
    service._settings = service._settings.model_copy(update={"pack": pack})
    segment = Segment(LIVE.slot, 1_000, tuple((each.identity, RUNS) for each in (LIVE, REMOVED)))
    store = ListStore([segment])
    await Packer(store, LIVE.slot).pack()
    monkeypatch.setattr(service, "_store", store)
    service._begun.set()

    async with asyncio.TaskGroup() as group:
        packing = group.create_task(service._pack())
        await until(lambda: store.log[-1][1] is None, deadline_s=5, what="a removed block")
        packing.cancel()

    assert [key.identity for key in await live_blocks(store, LIVE.slot)] == [LIVE.identity]


async def test_segments_that_cannot_be_packed_are_counted_and_named_until_they_can(
    service: CheckpointService, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = [CorruptBatchError("no block has it")] * 2

    async def pack(*_: object, **__: object) -> Packed:
        await asyncio.sleep(0)
        if troubles:
            raise troubles.pop()
        said.append(dict(service._context.health.notes()))
        return Packed()

    said: list[dict[str, str]] = []
    monkeypatch.setattr(Packer, "pack", pack)
    monkeypatch.setattr(Packer, "prune", pack)
    service._begun.set()

    async with asyncio.TaskGroup() as group:
        packing = group.create_task(service._pack())
        await until(lambda: len(said) > 5, deadline_s=5, what="passes that went well")
        packing.cancel()

    failures = service._context.metrics.counter(metric_names.PACK_FAILURES)
    assert failures.value == 2
    assert "of slot 0: no block has it" in said[0]["packing"]
    assert said[-1] == {}
