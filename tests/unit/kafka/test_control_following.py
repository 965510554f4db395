"""When a record of a control topic came, by the reader's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import control_following as module
from mirrorfleet.kafka.control_following import DEAF_S, TopicTail
from mirrorfleet.kafka.control_reading import ControlRecord
from tests.fakes.clock import HandClock

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

TOPIC = "__mirrorfleet.west.progress"
NOW_MS = 1_000_000
LONG_AGO_MS = NOW_MS - 3_600_000


class Log:
    """Five records are there; each poll gives out the last two of them, and the next one."""

    def __init__(self) -> None:
        self.clock = HandClock(seconds=7.0, wall_ms=NOW_MS)
        self.end = 5
        self.poll_s = 0.0
        """How long a poll takes."""
        self.next_offsets: dict[int, int] = {}

    async def topic(self, _name: str, *, refresh: bool) -> SimpleNamespace:
        del refresh
        return SimpleNamespace(partitions={0: None})

    async def list_offsets(self, *_: object, **__: object) -> dict[TopicPartition, SimpleNamespace]:
        return {TopicPartition(TOPIC, 0): SimpleNamespace(offset=self.end)}

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        self.clock.seconds += self.poll_s
        stamps = {3: NOW_MS - 90_000, 4: NOW_MS + 3_600_000, 5: LONG_AGO_MS}
        return [ControlRecord(TOPIC, 0, at, stamp, b"k", b"v") for at, stamp in stamps.items()]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(module, "PartitionTail", lambda *_: made)
    monkeypatch.setattr(module, "list_offsets", made.list_offsets)
    return made


@pytest.fixture
def tail(log: Log) -> TopicTail:
    return TopicTail(cast("Cluster", log), TOPIC, log.clock)


async def came(tail: TopicTail) -> list[int]:
    return [tail.came_ms(record) for record in await tail.poll(deadline_s=1)]


async def test_what_came_while_we_listened_came_now_and_before_that_the_broker_says_when(
    tail: TopicTail,
) -> None:
    assert await came(tail) == [NOW_MS - 90_000, NOW_MS, NOW_MS]


async def test_what_came_between_two_polls_that_are_not_far_apart_came_now(
    log: Log, tail: TopicTail
) -> None:
    await came(tail)

    log.clock.seconds += DEAF_S - 1
    log.end = 6

    assert (await came(tail))[-1] == log.clock.now_ms()


async def test_what_came_while_nobody_polled_came_when_the_broker_says_whichever_poll_brings_it(
    log: Log, tail: TopicTail
) -> None:
    await came(tail)

    log.clock.seconds += DEAF_S
    log.end = 6

    assert [(await came(tail))[-1] for _ in range(2)] == [LONG_AGO_MS] * 2


async def test_what_came_after_we_listened_again_came_now(log: Log, tail: TopicTail) -> None:
    await came(tail)

    log.clock.seconds += DEAF_S

    assert (await came(tail))[-1] == log.clock.now_ms()


async def test_what_a_poll_brings_that_our_host_was_stopped_in_came_when_the_broker_says(
    log: Log, tail: TopicTail
) -> None:
    await came(tail)

    log.poll_s = DEAF_S

    assert (await came(tail))[-1] == LONG_AGO_MS
