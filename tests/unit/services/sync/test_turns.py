"""Links of one fleet side by side: each has its turns at the target, and holds up no other."""

from __future__ import annotations

import asyncio

import pytest

from services.sync.service import SyncService
from tests.faultkit.waiting import until
from tests.unit.services.mirror.test_sources import SOUTH
from tests.unit.services.sync.test_sources import Meeting
from tests.unit.standby.test_demotion import for_ever


async def test_it_is_not_ready_before_each_link_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    sync.away.add(SOUTH)
    begun, shown = asyncio.Event(), asyncio.Event()
    held = sync.service._context.health.active.held

    async def look(*_: object) -> float:
        begun.set()
        await shown.wait()
        return 60.0

    monkeypatch.setattr(SyncService, "_look", look)
    monkeypatch.setattr(SyncService, "_meet", for_ever)
    await sync.service._fleet.target.open()
    async with asyncio.TaskGroup() as group, asyncio.timeout(5):
        working = group.create_task(sync.service._work())
        await begun.wait()
        meanwhile = held()
        shown.set()
        await until(lambda: set(held()) == {"link south->west"}, deadline_s=5, what="the look")
        working.cancel()

    assert meanwhile == {
        "link east->west": "not looked at yet",
        "link south->west": "no answer.",  # and not only that nobody has looked
    }
