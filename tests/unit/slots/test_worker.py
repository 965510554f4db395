from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.core.ids import FleetName, SourceOffset, TopicPartition
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.records.events import EventKind
from mirrorfleet.slots.worker import Worker
from tests.unit.copying.making import LINK, partition_of, slot

EVENTS = TopicPartition("__mirrorfleet.west.events", 0)


class Written:
    """A control writer that takes a moment."""

    def __init__(self) -> None:
        self.writes: list[tuple[TopicPartition, int]] = []

    async def write_out(self, at: TopicPartition, waiting: list[object], now_ms: int) -> None:
        del now_ms
        await asyncio.sleep(0)
        self.writes.append((at, len(waiting)))
        waiting.clear()


def worker() -> Worker:
    nothing = SimpleNamespace(now_ms=lambda: 5)
    needed = dict.fromkeys(
        ("settings", "dice", "target", "targets", "version", "budget", "confirm", "stored_map"),
        nothing,
    )
    return Worker(
        owner="mirror:host:1:0",
        fleet=FleetName("west"),
        clock=nothing,
        principal="",
        **needed,  # type: ignore[arg-type]  # nothing of these is asked for
    )


def test_a_corrupt_batch_that_is_fetched_again_is_told_once_until_the_partition_is_behind_it() -> (
    None
):
    """Its bytes may fail in another way each time, and an answer may take a while."""
    telling, copying = worker(), slot()
    partition = partition_of(copying)
    for detail in ("crc is 1, not 2", "no batch at byte 7"):
        offset = SourceOffset(5)
        copying.fault(partition, Fault(FaultReason.SOURCE_CORRUPT, offset, detail), 1.0)
        telling.faulted(LINK, partition)
        copying.heal(partition)
        partition.source = SourceEnds(6, 6, 0)
        telling.recovered(LINK, partition)
    told = [event.kind for event in telling.events]

    copying.committed([replace(partition.committed, next_source=SourceOffset(6))], 2.0)
    telling.recovered(LINK, partition)

    assert told == [EventKind.PARTITION_FAULTED]
    assert telling.events[-1].kind == EventKind.PARTITION_RECOVERED


async def test_two_reports_at_once_write_each_event_once() -> None:
    telling, written = worker(), Written()
    telling.event(EventKind.WORKER_STARTED)
    telling.event(EventKind.WORKER_STOPPED)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(telling.tell(cast(ControlWriter, written)))

    assert written.writes == [(EVENTS, 2)]
    assert not telling.events


async def test_what_fell_out_of_a_full_queue_while_it_was_written_costs_no_other_event() -> None:
    telling, written = worker(), Written()
    telling.events = deque(maxlen=2)
    telling.event(EventKind.WORKER_STARTED, detail="1")
    telling.event(EventKind.WORKER_STARTED, detail="2")

    async with asyncio.TaskGroup() as group:
        group.create_task(telling.tell(cast(ControlWriter, written)))
        await asyncio.sleep(0)
        telling.event(EventKind.WORKER_STARTED, detail="3")

    assert [event.detail for event in telling.events] == ["3"]
