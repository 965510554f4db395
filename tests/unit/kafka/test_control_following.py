"""When a record of a control topic came, by the reader's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import control_following as module
from mirrorfleet.kafka.control_following import DEAF_S, LACKS_S, TopicTail
from mirrorfleet.kafka.control_reading import ControlRecord
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, OffsetSpec
from tests.fakes.clock import HandClock

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        self.partitions = {0}
        self.leaderless: dict[int, object] = {}
        self.trouble = ErrorCode.LEADER_NOT_AVAILABLE
        self.asked: list[tuple[list[int], OffsetSpec]] = []
        self.out_of_range = set[int]()

    async def topic(self, _name: str, *, refresh: bool) -> SimpleNamespace:
        del refresh
        return SimpleNamespace(partitions=dict.fromkeys(self.partitions))

    async def list_offsets(
        self, _cluster: object, wanted: Mapping[TopicPartition, OffsetSpec], **_: object
    ) -> dict[TopicPartition, SimpleNamespace | BrokerError]:
        for spec in set(wanted.values()):
            numbers = [at.partition for at, each in wanted.items() if each == spec]
            self.asked.append((numbers, spec))
        there = SimpleNamespace(offset=self.end)
        away = BrokerError(self.trouble, "away")
        return {at: away if at.partition in self.leaderless else there for at in wanted}

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset
        self.out_of_range.discard(partition)

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        if self.out_of_range:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "reading")
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


async def test_who_begins_while_some_have_no_leader_hears_the_others_and_begins_those_soon(
    log: Log, tail: TopicTail
) -> None:
    log.partitions, log.leaderless = {0, 1, 2}, {1: None, 2: None}
    await came(tail)
    assert log.next_offsets == {0: 5}
    assert tail.unheard == {1, 2}
    assert log.asked[0] == ([0, 1, 2], EARLIEST)

    log.clock.seconds += LACKS_S
    log.leaderless = {2: None}
    await came(tail)
    assert log.next_offsets == {0: 5, 1: 5}

    log.leaderless.clear()
    log.clock.seconds += LACKS_S
    await came(tail)
    assert log.next_offsets == {0: 5, 1: 5, 2: 5}
    assert tail.unheard == set()
    log.leaderless = {0: None}  # it was read before
    assert tail.unheard == {0}
    log.leaderless = {}
    log.asked.clear()
    log.clock.seconds += LACKS_S
    await came(tail)
    assert not log.asked  # it looks for new ones now and then


async def test_a_log_that_lost_its_tail_is_read_again_and_no_other(
    log: Log, tail: TopicTail
) -> None:
    log.partitions = {0, 1, 2}
    await came(tail)
    log.asked.clear()
    log.out_of_range = {1}

    assert await came(tail) == []
    assert log.asked == [([1], EARLIEST), ([1], LATEST)]


async def test_those_that_had_no_leader_begin_where_the_others_did(log: Log) -> None:
    since = TopicTail(cast("Cluster", log), TOPIC, log.clock, since_ms=LONG_AGO_MS)
    log.partitions, log.leaderless = {0, 1}, {1: None}
    await came(since)
    log.leaderless.clear()
    log.partitions = {0, 1, 2}
    log.asked.clear()
    log.clock.seconds += LACKS_S

    await came(since)

    assert [each for each in log.asked if each[1] != LATEST] == [
        ([1], OffsetSpec(LONG_AGO_MS)),
        ([2], EARLIEST),
    ]


@pytest.mark.parametrize(
    ("away", "trouble"),
    [
        ({0, 1}, ErrorCode.LEADER_NOT_AVAILABLE),
        ({1}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
    ids=["none-has-a-leader", "not-allowed"],
)
async def test_who_can_begin_none_or_may_not_is_told(
    log: Log, tail: TopicTail, away: set[int], trouble: ErrorCode
) -> None:
    log.partitions, log.leaderless, log.trouble = {0, 1}, dict.fromkeys(away), trouble

    with pytest.raises(BrokerError, match=trouble.name):
        await came(tail)
