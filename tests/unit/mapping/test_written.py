"""A checkpoints topic is read to its end, whatever becomes of that end, or of it, meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicId, TopicPartition
from mirrorfleet.kafka.control_reading import ControlRecord
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping import written
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.records.checkpoint import Checkpoint, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control_tailing import PartitionTail

TOPIC = "east.checkpoints.internal"
AT = TopicPartition(TOPIC, 0)
COPY = TopicPartition("east.orders", 0)
POINT = Checkpoint("g", COPY, SourceOffset(5), TargetOffset(5), "", (TargetOffset(5),))
OTHER = replace(POINT, group="h")


class Log:
    """Checkpoint n says that the group was set to n, two at a read; it is cut at the third one."""

    def __init__(self, *, is_seen: bool) -> None:
        self.end, self.reads, self.is_seen = 10, 0, is_seen
        self.next_offsets: dict[int, int] = {}

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        await asyncio.sleep(0)
        self.reads += 1
        at = self.next_offsets[0]
        if self.reads == 3:
            self.end = 3 if self.is_seen else at
            if self.is_seen:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, TOPIC)
        self.next_offsets[0] = min(at + 2, self.end)
        points = [
            Checkpoint("g", COPY, SourceOffset(n), TargetOffset(n), "", (TargetOffset(n),))
            for n in range(at, self.next_offsets[0])
        ]
        return [ControlRecord(TOPIC, 0, p.target, 0, *encode(p)) for p in points]

    async def metadata(self, _: object) -> SimpleNamespace:
        topic = SimpleNamespace(error=ErrorCode.NONE, topic_id=UUID(int=1))
        return SimpleNamespace(topics={TOPIC: topic})

    async def list_offsets(
        self, _: object, wanted: dict[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset]:
        return {AT: ListedOffset(0 if wanted[AT] is EARLIEST else self.end, -1, 0)}


class Topic:
    """A checkpoints topic, its tail and its writer; each record is a point."""

    def __init__(self, *points: Checkpoint) -> None:
        self.points, self.error = list(points), ErrorCode.NONE
        self.topic_id: TopicId = UUID(int=1)
        self.next_offsets: dict[int, int] = {}

    def made_again(self, *points: Checkpoint) -> None:
        self.points, self.error = list(points), ErrorCode.NONE
        self.topic_id = UUID(int=self.topic_id.int + 1)

    def deleted(self) -> None:
        self.points, self.error = [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def tail(self, monkeypatch: pytest.MonkeyPatch) -> WrittenTail:
        monkeypatch.setattr(written, "list_offsets", self.list_offsets)
        return tail_of(self)

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        await asyncio.sleep(0)
        at, self.next_offsets[0] = self.next_offsets[0], len(self.points)
        return [ControlRecord(TOPIC, 0, 0, 0, *encode(point)) for point in self.points[at:]]

    async def write(
        self, _: TopicPartition, entries: Sequence[tuple[bytes, bytes]], now_ms: int
    ) -> None:
        del now_ms
        points = [decode(*entry) for entry in entries]
        self.points += [point for point in points if isinstance(point, Checkpoint)]

    async def metadata(self, _: object) -> SimpleNamespace:
        topic = SimpleNamespace(error=self.error, topic_id=self.topic_id)
        return SimpleNamespace(topics={TOPIC: topic})

    async def list_offsets(
        self, _: object, wanted: dict[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset]:
        return {AT: ListedOffset(0 if wanted[AT] is EARLIEST else len(self.points), -1, 0)}


def tail_of(log: Log | Topic) -> WrittenTail:
    cluster = SimpleNamespace(
        dice=None, settings=SimpleNamespace(request_timeout_s=1.0), metadata=log.metadata
    )
    tail = WrittenTail(cast("Cluster", cluster), TOPIC)
    tail._tail = cast("PartitionTail", log)
    return tail


@pytest.mark.parametrize(
    ("is_seen", "end"), [(True, 3), (False, 4)], ids=["below what was read", "just behind it"]
)
async def test_a_read_ends_where_a_log_that_lost_its_tail_ends_now(
    monkeypatch: pytest.MonkeyPatch, *, is_seen: bool, end: int
) -> None:
    """Nobody else writes to it: it would not come to where it ended before."""
    log = Log(is_seen=is_seen)
    monkeypatch.setattr(written, "list_offsets", log.list_offsets)
    tail = tail_of(log)

    async with asyncio.timeout(1.0):
        await tail.refresh()

    assert log.next_offsets[0] == end
    assert tail.of("g")[COPY] == (end - 1,)


def lose_its_tail(topic: Topic) -> None:
    topic.points = [OTHER]


@pytest.mark.parametrize(
    "lose",
    [
        Topic.deleted,
        Topic.made_again,
        lambda topic: topic.made_again(OTHER, OTHER),
        lose_its_tail,
    ],
    ids=["deleted", "made again", "made again and as long", "without its tail"],
)
async def test_what_a_topic_has_lost_is_not_there_and_is_known_as_ours_all_the_same(
    monkeypatch: pytest.MonkeyPatch, lose: Callable[[Topic], None]
) -> None:
    topic = Topic(OTHER, POINT)
    tail = topic.tail(monkeypatch)
    await tail.refresh()
    assert tail.has(POINT)
    assert not tail.has(replace(POINT, metadata="another"))
    assert list(tail.newest) == [OTHER, POINT]

    lose(topic)
    await tail.refresh()

    assert not tail.has(POINT)
    assert tail.last(POINT) == POINT
    assert tail.of("g") == {COPY: (5,)}


async def test_a_topic_that_was_not_seen_for_a_moment_is_read_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that answers may not know of it yet."""
    topic = Topic(POINT)
    tail = topic.tail(monkeypatch)
    await tail.refresh()
    topic.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await tail.refresh()
    assert not tail.has(POINT)

    topic.error = ErrorCode.NONE
    await tail.refresh()

    assert tail.has(POINT)
