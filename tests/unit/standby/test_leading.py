"""The active part runs while the group says so, and not a moment longer than its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import pytest

from mirrorfleet.copying.sharing import Share
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.kafka.membership import SESSION_S
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.health import Health, Role
from mirrorfleet.runtime.lifecycle import Lifecycle, Serving, Stop
from mirrorfleet.standby.leading import GROUP, Leadership
from tests.faultkit.waiting import until

PLACE = Share(frozenset({SlotNumber(0)}), frozenset())
NOTHING = Share(frozenset(), frozenset())
CLOCK = SystemClock()


@dataclass
class Group:
    """A membership whose coordinator is the test."""

    share: Share | None = None
    answers: bool = True
    confirmed_at: float = float("-inf")
    trouble: str = ""
    group: str = "mirrorfleet.west.sync"
    left: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True

    async def confirm(self) -> bool:
        if self.answers and self.share is not None:
            self.confirmed_at = CLOCK.monotonic()
        return self.answers and self.share is not None

    async def changed(self, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(min(at_most_s, 0.01)):
                await self.news.wait()
        except TimeoutError:
            pass
        self.news.clear()

    def give(self, share: Share) -> None:
        self.share = share
        self.news.set()


class Service:
    """A service whose active part is seen to begin and end."""

    def __init__(self) -> None:
        self.group = Group()
        lifecycle = Lifecycle()
        lifecycle.move(Serving())
        self.health = Health(lifecycle)
        self.leadership = Leadership(self.group, self.health, CLOCK, "sync")
        self.stop = Stop(CLOCK, 5.0)
        self.begun = self.ended = self.forgotten = 0
        self.left_before_the_end = False

    async def active(self) -> None:
        self.begun += 1
        self.health.active.hold("catalog", "not read yet")
        self.health.active.note("drift", "3 changes wait")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
            self.left_before_the_end |= self.group.left

    def forget(self) -> None:
        assert self.ended > self.forgotten
        self.forgotten += 1

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.leadership.run(self.active, self.stop, self.forget))
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop.set()
        await self.task


async def seen(what: str, look: Callable[[], object]) -> None:
    await until(look, deadline_s=5, what=what)


async def test_a_standby_is_ready_and_its_active_part_does_not_run() -> None:
    async with Service() as service:
        assert not service.health.ready
        await seen("silence", lambda: "names" in service.health.reasons()[GROUP])
        assert service.health.reasons() == {
            GROUP: "mirrorfleet.west.sync: its coordinator names no member here"
        }
        service.group.give(NOTHING)
        await seen("readiness", lambda: service.health.ready)
        assert (service.health.role, service.begun) == (Role.STANDBY, 0)
        assert not await service.leadership.is_ours()


async def test_who_has_the_place_is_active_and_gives_it_back_after_its_end() -> None:
    async with Service() as service:
        service.group.give(PLACE)
        await seen("the active part", lambda: service.begun)
        assert service.health.role is Role.ACTIVE
        await seen("its reason alone", lambda: list(service.health.reasons()) == ["catalog"])
        assert await service.leadership.is_ours()
        assert not service.group.left
    assert (service.ended, service.group.left, service.left_before_the_end) == (1, True, False)


async def test_the_active_part_ends_with_all_that_it_said_when_another_gets_the_place() -> None:
    async with Service() as service:
        service.group.give(PLACE)
        await seen("the active part", lambda: service.begun)
        service.group.give(NOTHING)
        await seen("its end", lambda: service.ended)
        await seen("readiness", lambda: service.health.ready)
        assert (service.health.role, service.forgotten) == (Role.STANDBY, 1)
        service.group.give(PLACE)
        await seen("the active part again", lambda: service.begun == 2)


async def test_what_holds_the_service_back_whoever_is_active_outlives_the_active_part() -> None:
    async with Service() as service:
        service.health.hold("map", "not read yet")
        service.health.note("map", "it is large")
        service.group.give(PLACE)
        await seen("the active part", lambda: "catalog" in service.health.reasons())
        assert set(service.health.notes()) == {"map", "drift"}
        service.group.give(NOTHING)
        await seen("its end", lambda: service.forgotten)
        await seen("the rest", lambda: "catalog" not in service.health.reasons())
        assert service.health.role is Role.STANDBY
        assert service.health.reasons() == {"map": "not read yet"}
        assert service.health.notes() == {"map": "it is large"}


async def test_the_lease_is_over_a_session_after_the_last_answered_request() -> None:
    async with Service() as service:
        service.group.give(PLACE)
        await seen("the active part", lambda: service.begun)
        service.group.answers = False
        service.group.confirmed_at = CLOCK.monotonic() - SESSION_S + 0.3
        assert service.ended == 0
        await seen("the end of the lease", lambda: service.ended)
        since_answer_s = CLOCK.monotonic() - service.group.confirmed_at
        assert since_answer_s < 1.5 * SESSION_S  # counted from now it were nearly twice as much
        assert not service.health.ready


async def test_an_error_of_the_active_part_ends_the_service() -> None:
    service = Service()

    async def refused() -> None:
        raise RefusedError("an alias means another cluster now")

    service.group.give(PLACE)
    with pytest.RaisesGroup(RefusedError, flatten_subgroups=True):
        await service.leadership.run(refused, service.stop, service.forget)
