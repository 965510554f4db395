"""A source is heard of by what lanes bring, and asked when they bring nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.contact import Contact
from mirrorfleet.core.errors import AuthenticationError, ConnectionLostError
from mirrorfleet.kafka import answering as module
from mirrorfleet.kafka.answering import answering
from mirrorfleet.slots import contacts
from tests.fakes.clock import HandClock
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.slots.worker import SourceSide


class World:
    """A source of three brokers, of which those in `well` answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.well = {1, 2, 3}
        self.asked: list[int] = []
        self.clock = HandClock(seconds=100.0)
        self.contact = Contact(100.0)
        self.fetched = SimpleNamespace(value=0.0)
        self.cluster = SimpleNamespace(brokers={3: "", 1: "", 2: ""}, shared=self._shared)
        meters = SimpleNamespace(fetched=self.fetched)
        self._side = SimpleNamespace(meters=meters, cluster=self.cluster)
        self.ready: list[int] = []
        monkeypatch.setattr(module, "ready_within", self._ready)
        monkeypatch.setattr(module, "negotiate", self._negotiate)
        monkeypatch.setattr(contacts, "LOOK_S", 0.0)

    async def _shared(self, node: int) -> int:
        self.asked.append(node)
        if node == 0:
            await asyncio.Event().wait()
        if node < 0:
            raise ConnectionLostError("refused")
        return node

    async def _ready(self, node: int, seconds: float) -> None:
        del seconds
        self.ready.append(node)

    async def _negotiate(self, node: int, deadline_s: float) -> None:
        del deadline_s
        assert self.ready[-1] == node  # its login may have ended
        if node not in self.well:
            raise AuthenticationError("no")

    async def answering(self, first: int | None) -> int | None:
        return await answering(cast("Cluster", self.cluster), first, 0.01)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        side = cast("SourceSide", self._side)
        task = asyncio.create_task(contacts.keep(self.contact, side, self.clock))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def test_brokers_are_asked_until_one_answers_the_last_one_that_did_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    assert await world.answering(None) == 1
    world.well = {3}
    assert await world.answering(2) == 3
    assert world.asked == [1, 2, 1, 3]
    assert await world.answering(9) == 3
    world.well = set()
    assert await world.answering(3) is None
    world.cluster.brokers = {-1: "", 0: ""}  # one that refuses, and one that says nothing
    assert await world.answering(None) is None


async def test_what_lanes_bring_is_an_answer_and_so_is_the_word_of_any_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.well = set()
    async with world.kept():
        await until(lambda: len(world.asked) > 6, deadline_s=5, what="some looks in vain")
        assert world.contact.heard_at == 100.0

        world.clock.seconds = 101.0
        world.fetched.value += 1
        await until(lambda: world.contact.heard_at == 101.0, deadline_s=5, what="what was fetched")

        world.clock.seconds = 102.0
        world.well = {2}
        await until(lambda: world.contact.heard_at == 102.0, deadline_s=5, what="an answer")
