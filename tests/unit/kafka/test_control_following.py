"""When a record of a control topic came, by the reader's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import control_following as module
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_following import TopicTail
from mirrorfleet.kafka.control_reading import ControlRecord

if TYPE_CHECKING:
    import pytest

TOPIC = "__mirrorfleet.west.progress"
NOW_MS = 1_000_000


class Clock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 7.0


class Tail:
    """Five records are there; the last of them is given out, and the next one."""

    def __init__(self, *_: object) -> None:
        self.next_offsets: dict[int, int] = {}

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        stamps = {3: NOW_MS - 90_000, 4: NOW_MS + 3_600_000, 5: NOW_MS - 3_600_000}
        return [ControlRecord(TOPIC, 0, at, stamp, b"k", b"v") for at, stamp in stamps.items()]


async def ends(*_: object, **__: object) -> dict[TopicPartition, SimpleNamespace]:
    return {TopicPartition(TOPIC, 0): SimpleNamespace(offset=5)}


async def test_what_came_while_we_listened_came_now_and_before_that_the_broker_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def topic(_name: str, *, refresh: bool) -> SimpleNamespace:
        del refresh
        return SimpleNamespace(partitions={0: None})

    monkeypatch.setattr(module, "PartitionTail", Tail)
    monkeypatch.setattr(module, "list_offsets", ends)
    tail = TopicTail(cast(Cluster, SimpleNamespace(topic=topic)), TOPIC, Clock())

    found = [tail.came_ms(record) for record in await tail.poll(deadline_s=1)]

    assert found == [NOW_MS - 90_000, NOW_MS, NOW_MS]
