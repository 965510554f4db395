"""The map in memory is as short as the logs are, in a standby as well."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.packing import Floor
from services.checkpoint import service as module
from services.checkpoint.service import CheckpointService
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry
from tests.unit.offsets.making import run_of
from tests.unit.standby.test_demotion import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.catalog import CatalogPartition


async def test_a_standby_forgets_what_both_logs_have_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def floors(
        sources: object, target: object, entries: Iterable[CatalogPartition]
    ) -> dict[PartitionIdentity, Floor]:
        del sources, target
        return {each.identity: Floor(SourceOffset(10**6), TargetOffset(10**6)) for each in entries}

    async def nothing(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "log_floors", floors)
    monkeypatch.setattr(module, "follow_catalog", nothing)
    context = replace(Fleet().context, settings={"prune_period_s": 1})
    service = CheckpointService(context)
    service._settings = service._settings.model_copy(update={"prune_period_s": 0.0})
    monkeypatch.setattr(service._map, "step", nothing)
    one = entry()
    service._view.apply(one)
    service._map.index.add(one.identity, [run_of(0, 5, 0), run_of(5, 9, 6)])

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(service._read())
        await until(lambda: service._map.index.pieces == 1, deadline_s=5, what="a shorter map")
        reading.cancel()
