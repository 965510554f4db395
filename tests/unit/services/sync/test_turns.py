"""Links of one fleet side by side: each has its turns at the target, and holds up no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.planning.observed import SourceView, TargetView
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.topics import Chosen
from mirrorfleet.policy.claims import Claim
from mirrorfleet.syncing.anew import AnewRequests
from mirrorfleet.syncing.fleet import FRESH_S, FleetSync, Seen
from mirrorfleet.syncing.settings import SyncSettings
from mirrorfleet.watching import acls
from mirrorfleet.watching.source import SourceWatch
from mirrorfleet.watching.target import TargetWatch
from services.sync.service import SyncService
from tests.fakes.clock import HandClock
from tests.faultkit.waiting import until
from tests.unit.services.mirror.test_sources import EAST, SOUTH, TWO
from tests.unit.services.sync.test_sources import VIEW, Meeting, a_view
from tests.unit.standby.test_demotion import for_ever, nothing
from tests.unit.syncing.test_making import creating

if TYPE_CHECKING:
    from mirrorfleet.core.access import AclBinding
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.syncing.side import Side

MIRRORED = TWO.replace("    to: west\n", "    to: west\n    acls: mirror\n", 1)
"""The ACLs of east are followed."""


class Turns(Meeting):
    """Targets that have nothing, and a clock of the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, estate: str = TWO) -> None:
        super().__init__(monkeypatch, estate)
        self.clock = self.service._fleet.clock = HandClock()
        monkeypatch.setattr(SyncService, "_mend_topics", nothing)
        monkeypatch.setattr(TargetWatch, "look", self._target)
        monkeypatch.setattr(AnewRequests, "open", self._no_requests)

    async def _target(self, *_: object) -> TargetView:
        return TargetView(cluster=ClusterId("west"), brokers=1, topics={})

    async def _no_requests(self) -> dict[object, object]:
        return {}

    async def look(self, source: ClusterAlias) -> None:
        await self.service._look(self.side(source))

    async def look_in_time(self, source: ClusterAlias) -> None:
        async with asyncio.timeout(5):
            await self.look(source)


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
    sync, numbers = Turns(monkeypatch), count()
    made: list[str] = []

    async def plan(_: FleetSync, side: Side, source: SourceView) -> Seen:
        topic = f"t{next(numbers)}"
        there = creating(Claim(side.link, "all", topic, topic))
        return Seen(source, Chosen((), (), 0), there if side.link.source == EAST else Plan())

    async def make(_: FleetSync, __: Side, step: Plan, *___: object) -> None:
        made.append(step.create[0].claim.source_topic)
        await asyncio.sleep(0)

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(FleetSync, "plan", plan)
    monkeypatch.setattr(FleetSync, "make", make)
    await sync.begin()
    async with asyncio.TaskGroup() as group:
        stepping = group.create_task(sync.look(EAST))
        await until(lambda: made, deadline_s=5, what="the first step")
        await sync.look_in_time(SOUTH)
        before = len(made)
        await until(lambda: len(made) > before, deadline_s=5, what="one more step")
        stepping.cancel()


async def test_what_was_made_is_published_before_another_link_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another fleet would take a copy that no catalog names for a topic of the target's own."""
    sync, said = Turns(monkeypatch), list[str]()
    topic, making = Claim(sync.side(EAST).link, "all", "orders", "orders"), asyncio.Event()

    async def plan(_: FleetSync, side: Side, source: SourceView) -> Seen:
        said.append(f"plan {side.link.source}")
        # the broker that is asked hears of it a moment later than the controller
        has = said.count("plan east") > 2 or side.link.source != EAST
        return Seen(source, Chosen((), (), 0), Plan() if has else creating(topic))

    async def publish(_: SyncService, side: Side, __: Plan) -> None:
        said.append(f"publish {side.link.source}")

    async def make(*_: object) -> None:
        making.set()
        await until(lambda: waiting(sync.service), deadline_s=5, what="another link's turn")
        said.append("make")

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(FleetSync, "plan", plan)
    monkeypatch.setattr(FleetSync, "make", make)
    monkeypatch.setattr(SyncService, "_publish", publish)
    await sync.begin()
    async with asyncio.TaskGroup() as group:
        group.create_task(sync.look_in_time(EAST))
        await making.wait()
        group.create_task(sync.look_in_time(SOUTH))

    made = said.index("make")
    assert said[made : made + 5] == ["make", *["plan east", "publish east"] * 2]


def waiting(service: SyncService) -> bool:
    """Whether somebody waits for the turn that is another one's."""
    return bool(service._one_at_a_time._waiters)


async def test_a_source_that_does_not_tell_its_acls_holds_up_its_own_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, asked = Turns(monkeypatch, MIRRORED), asyncio.Event()

    async def describe(cluster: Cluster, **_: object) -> list[AclBinding]:
        if cluster.settings.alias == EAST:
            asked.set()
            await for_ever()
        return []

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(acls, "describe_acls", describe)
    await sync.begin()
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(sync.look(EAST))
        await asked.wait()
        await sync.look_in_time(SOUTH)
        looking.cancel()


async def test_a_source_that_falls_silent_in_its_turn_loses_the_turn_and_has_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, answers = Turns(monkeypatch), asyncio.Event()
    looks = Counter[ClusterAlias]()

    async def look(watch: SourceWatch) -> SourceView:
        alias = watch.cluster.settings.alias
        looks[alias] += 1
        if alias == EAST and looks[EAST] > 1:
            await answers.wait()
        return VIEW

    monkeypatch.setattr(SourceWatch, "look", look)
    monkeypatch.setattr(sync.service, "_settings", SyncSettings(change_s=0.01, confirm_s=0.1))
    await sync.begin()
    async with asyncio.TaskGroup() as group:
        async with sync.service._one_at_a_time:
            looking = group.create_task(sync.look(EAST))
            await until(lambda: looks[EAST], deadline_s=5, what="a look")
            sync.clock.seconds += FRESH_S
        await until(lambda: looks[EAST] > 1, deadline_s=5, what="a look in its turn")
        await sync.look_in_time(SOUTH)
        answers.set()
        async with asyncio.timeout(5):
            await looking

    assert looks == {EAST: 3, SOUTH: 1}


async def test_a_source_that_is_only_slow_is_waited_for_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Turns(monkeypatch)
    waited: list[float] = []

    async def slow(_: FleetSync, __: Side, within_s: float) -> SourceView | None:
        waited.append(within_s)
        return VIEW if within_s > 10 else None

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(FleetSync, "renewed_soon", slow)
    await sync.begin()

    await sync.look_in_time(EAST)

    assert waited == [3.0, 6.0, 12.0]
