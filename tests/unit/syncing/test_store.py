"""Events of the fleet's links are written once each, whoever's look comes to an end first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.records.events import Event, EventKind, encode
from mirrorfleet.syncing import store as module
from mirrorfleet.syncing.store import Store
from tests.unit.syncing.test_making import HandClock


class Writer:
    """Takes a moment, and refuses what a test wants refused."""

    def __init__(self) -> None:
        self.writes: list[list[object]] = []
        self.gate = asyncio.Event()
        self.refuses = False

    async def write(self, at: TopicPartition, entries: Sequence[object], now_ms: int) -> None:
        await self.gate.wait()
        if self.refuses:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(at))
        self.writes.append(list(entries))


async def everything_there(topics: Sequence[str]) -> SimpleNamespace:
    return SimpleNamespace(topics={name: SimpleNamespace(error=ErrorCode.NONE) for name in topics})


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    made = Writer()
    monkeypatch.setattr(module, "ControlWriter", lambda _: made)
    return made


def a_store() -> Store:
    cluster = SimpleNamespace(metadata=everything_there)
    return Store(cast("Cluster", cluster), FleetName("west"), HandClock())


def an_event(detail: str) -> Event:
    return Event(kind=EventKind.TOPIC_CREATED, time_ms=1, writer="sync", detail=detail)


async def test_two_links_that_flush_at_once_write_each_event_once(writer: Writer) -> None:
    store, first, late = a_store(), an_event("first"), an_event("late")
    store.tell(first)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(store.flush())
        await asyncio.sleep(0)
        store.tell(late)
        writer.gate.set()
    await store.flush()

    assert writer.writes == [[encode(first)], [encode(late)]]


async def test_what_fell_out_of_a_full_queue_while_it_was_written_costs_no_newer_event(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVENTS_KEPT", 2)
    store, events = a_store(), [an_event(str(number)) for number in range(3)]
    store.tell(events[0])
    store.tell(events[1])

    async with asyncio.TaskGroup() as group:
        group.create_task(store.flush())
        await asyncio.sleep(0)
        store.tell(events[2])
        writer.gate.set()
    await store.flush()

    assert writer.writes == [[encode(each) for each in events[:2]], [encode(events[2])]]


async def test_events_that_are_refused_wait_for_the_next_flush(writer: Writer) -> None:
    store = a_store()
    writer.gate.set()
    writer.refuses = True
    store.tell(an_event("first"))
    await store.flush()

    writer.refuses = False
    await store.flush()

    assert writer.writes == [[encode(an_event("first"))]]
