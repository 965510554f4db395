"""Writes of one process to several partitions of control topics."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control_writer import ControlWriter, Entry, write_waiting
from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry
from mirrorfleet.wire.batch import verify, walk
from mirrorfleet.wire.records import NO_TIME, Record, records_of

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

STUCK, FREE = TopicPartition("t", 0), TopicPartition("t", 1)
ENTRIES = [(b"k", b"v")]
NOW_MS, HOUR_MS = 1_700_000_000_000, 3_600_000


class Lane:
    """To a broker that does not answer about one partition for a while."""

    made = 0
    muted_s = 0.0

    def __init__(self, connection: object) -> None:
        del connection
        Lane.made += 1
        self.connection = SimpleNamespace(closed=False, muted_s=Lane.muted_s)
        self.sent: list[int] = []
        self.healed = asyncio.Event()

    async def ready(self) -> None:
        pass

    async def send(self, entries: tuple[ProduceEntry, ...]) -> list[ProduceAck]:
        (entry,) = entries
        self.sent.append(entry.partition)
        if entry.partition == STUCK.partition:
            await self.healed.wait()
        return [ProduceAck(entry.topic, entry.partition, ErrorCode.NONE, 0, -1, -1, None, (), None)]

    def close(self) -> None:
        self.connection.closed = True


class Dated(Lane):
    """To a broker that refuses what is dated more than an hour ahead of its clock."""

    tried: list[int]
    stored: list[Record]
    refusal = ErrorCode.INVALID_TIMESTAMP

    async def send(self, entries: tuple[ProduceEntry, ...]) -> list[ProduceAck]:
        (entry,) = entries
        stored = bytes(entry.header) + bytes(entry.payload)
        (header,) = walk(stored)
        verify(stored, header)
        Dated.tried.append(header.max_timestamp)
        error = Dated.refusal if header.max_timestamp > NOW_MS + HOUR_MS else ErrorCode.NONE
        if error is ErrorCode.NONE:
            Dated.stored += records_of(stored, header)
        return [ProduceAck(entry.topic, entry.partition, error, 0, -1, -1, None, (), None)]


class OneBroker:
    """A cluster."""

    name = "west"
    dice = SimpleNamespace(uniform=lambda _, high: high)

    async def leader(self, _: object) -> object:
        return SimpleNamespace(node_id=1)

    def forget_leaders(self, _: str) -> None:
        pass

    async def topic(self, _: object) -> object:
        return SimpleNamespace(topic_id=None)

    async def connect(self, *_: object, **__: object) -> object:
        await asyncio.sleep(0)
        return object()


async def test_a_partition_that_takes_no_write_holds_up_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.control_writer.ProduceLane", Lane)
    monkeypatch.setattr(Lane, "made", 0)
    writer = ControlWriter(cast("Cluster", OneBroker()), deadline_s=5.0)

    async with asyncio.TaskGroup() as group:
        stuck = group.create_task(writer.write(STUCK, ENTRIES, 0))
        behind = group.create_task(writer.write(STUCK, ENTRIES, 1))
        await group.create_task(writer.write(FREE, ENTRIES, 0))
        still = (stuck.done(), behind.done())
        lane = cast("Lane", writer._lanes[1])
        order = list(lane.sent)
        lane.healed.set()

    assert still == (False, False)
    assert order == [STUCK.partition, FREE.partition]  # what is behind waits its turn
    assert Lane.made == 1  # side by side, and over one connection


async def test_a_quota_that_wants_silence_for_too_long_is_named_and_its_connection_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.control_writer.ProduceLane", Lane)
    monkeypatch.setattr(Lane, "made", 0)
    monkeypatch.setattr(Lane, "muted_s", 60.0)
    writer = ControlWriter(cast("Cluster", OneBroker()), deadline_s=0.2)

    with pytest.raises(DeadlineError, match=r"broker 1 .* its quota wants nothing .* 60.0 s"):
        await writer.write(FREE, ENTRIES, 0)

    lane = cast("Lane", writer._lanes[1])
    assert (Lane.made, lane.sent, lane.connection.closed) == (1, [], False)


async def test_what_was_written_before_the_rest_was_refused_does_not_wait_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.control_writer.ProduceLane", Lane)
    monkeypatch.setattr("mirrorfleet.kafka.control_writer._MAX_BATCH_BYTES", 40)
    writer = ControlWriter(cast("Cluster", OneBroker()), deadline_s=0.2)
    waiting: list[Entry] = [(b"k", b"%d" % number) for number in range(3)]
    sending = Lane.send

    async def twice(lane: Lane, entries: tuple[ProduceEntry, ...]) -> list[ProduceAck]:
        if len(lane.sent) == 2:
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")
        return await sending(lane, entries)

    monkeypatch.setattr(Lane, "send", twice)
    with pytest.raises(BrokerError):
        await writer.write_out(FREE, waiting, 0)

    assert waiting == [(b"k", b"2")]


async def test_of_a_queue_what_was_written_goes_also_where_the_rest_is_not() -> None:
    queue = deque([b"a", b"b", b"c"], maxlen=3)

    class Half:
        async def write_out(self, _: object, waiting: list[object], __: int) -> None:
            queue.append(b"d")  # a falls out
            del waiting[:2]
            raise DeadlineError("west: gave up")

    with pytest.raises(DeadlineError):
        await write_waiting(cast("ControlWriter", Half()), FREE, queue, lambda one: (None, one), 0)

    assert list(queue) == [b"c", b"d"]


@pytest.fixture
def dated(monkeypatch: pytest.MonkeyPatch) -> ControlWriter:
    """To such a broker."""
    monkeypatch.setattr("mirrorfleet.kafka.control_writer.ProduceLane", Dated)
    monkeypatch.setattr(Dated, "tried", [], raising=False)
    monkeypatch.setattr(Dated, "stored", [], raising=False)
    return ControlWriter(cast("Cluster", OneBroker()), deadline_s=5.0)


async def test_what_a_clock_that_is_far_ahead_dates_is_written_without_a_time(
    dated: ControlWriter,
) -> None:
    ahead = NOW_MS + 2 * HOUR_MS

    await dated.write(FREE, ENTRIES, ahead)
    await dated.write(FREE, ENTRIES, NOW_MS)

    assert Dated.tried == [ahead, NO_TIME, NOW_MS]
    assert Dated.stored == [Record(0, time, b"k", b"v") for time in (NO_TIME, NOW_MS)]


async def test_what_is_refused_for_something_else_is_not_written_again(
    dated: ControlWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dated, "refusal", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        await dated.write(FREE, ENTRIES, NOW_MS + 2 * HOUR_MS)

    assert len(Dated.tried) == 1
