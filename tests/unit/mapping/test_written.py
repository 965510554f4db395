"""A checkpoints topic is read to its end, whatever becomes of that end meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.control_reading import ControlRecord
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping import written
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.records.checkpoint import Checkpoint, encode

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control_tailing import PartitionTail

TOPIC = "east.checkpoints.internal"
AT = TopicPartition(TOPIC, 0)
COPY = TopicPartition("east.orders", 0)


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
        return SimpleNamespace(topics={TOPIC: SimpleNamespace(error=ErrorCode.NONE)})

    async def list_offsets(
        self, _: object, wanted: dict[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset]:
        return {AT: ListedOffset(0 if wanted[AT] is EARLIEST else self.end, -1, 0)}


@pytest.mark.parametrize(
    ("is_seen", "end"), [(True, 3), (False, 4)], ids=["below what was read", "just behind it"]
)
async def test_a_read_ends_where_a_log_that_lost_its_tail_ends_now(
    monkeypatch: pytest.MonkeyPatch, *, is_seen: bool, end: int
) -> None:
    """Nobody else writes to it: it would not come to where it ended before."""
    log = Log(is_seen=is_seen)
    monkeypatch.setattr(written, "list_offsets", log.list_offsets)
    cluster = SimpleNamespace(
        dice=None, settings=SimpleNamespace(request_timeout_s=1.0), metadata=log.metadata
    )
    tail = WrittenTail(cast("Cluster", cluster), TOPIC)
    tail._tail = cast("PartitionTail", log)

    async with asyncio.timeout(1.0):
        await tail.refresh()

    assert log.next_offsets[0] == end
    assert tail.of("g")[COPY] == (end - 1,)
