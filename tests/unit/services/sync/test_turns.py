"""Links of one fleet side by side: each has its turns at the target, and holds up no other."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.planning.observed import SourceView
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.topics import Chosen
from mirrorfleet.policy.claims import Claim
from mirrorfleet.syncing.fleet import FleetSync, Seen
from mirrorfleet.watching.source import SourceWatch
from services.sync.service import SyncService
from tests.faultkit.waiting import until
from tests.unit.planning.samples import EAST as EAST_ID
from tests.unit.services.mirror.test_sources import EAST, SOUTH
from tests.unit.services.sync.test_sources import Meeting
from tests.unit.standby.test_demotion import for_ever, nothing
from tests.unit.syncing.test_making import creating

if TYPE_CHECKING:
    from mirrorfleet.syncing.side import Side

VIEW = SourceView(cluster=EAST_ID, topics={})


async def a_view(_: SourceWatch) -> SourceView:
    return VIEW


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


async def test_a_link_with_many_steps_to_make_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, numbers = Meeting(monkeypatch), count()
    made: list[str] = []

    async def plan(_: FleetSync, side: Side, source: SourceView) -> Seen:
        topic = f"t{next(numbers)}"
        there = creating(Claim(side.link, "all", topic, topic))
        return Seen(source, Chosen((), (), 0), there if side.link.source == EAST else Plan())

    async def make(_: FleetSync, __: Side, step: Plan, *___: object) -> None:
        made.append(step.create[0].claim.source_topic)
        await asyncio.sleep(0)

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(SyncService, "_mend_topics", nothing)
    monkeypatch.setattr(FleetSync, "plan", plan)
    monkeypatch.setattr(FleetSync, "make", make)
    await sync.begin()
    async with asyncio.TaskGroup() as group:
        stepping = group.create_task(sync.service._look(sync.side(EAST)))
        await until(lambda: made, deadline_s=5, what="the first step")
        async with asyncio.timeout(5):
            await sync.service._look(sync.side(SOUTH))
        before = len(made)
        await until(lambda: len(made) > before, deadline_s=5, what="one more step")
        stepping.cancel()
