"""One topic whose partitions are lists, and a cluster that has it: for what tails them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import control_tailing
from mirrorfleet.kafka.backoff import SystemDice
from mirrorfleet.kafka.cluster import PartitionLeader
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchPoint
from tests.unit.copying.making import fetched

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.kafka.cluster import Cluster

TOPIC = "__mirrorfleet.west.segments"


class Logs:
    """Each record is a batch, and as long as an offset; a leader is known until it is forgotten."""

    name = "west"
    dice = SystemDice()
    settings = SimpleNamespace(request_timeout_s=0.3)

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *partitions: int) -> None:
        self.records: dict[int, list[tuple[int, bytes]]] = {number: [] for number in partitions}
        """Epoch and value."""
        self.leaders = dict.fromkeys(partitions, 1)
        self.topic_id = UUID(int=7)
        self.polls = 0
        self.unreachable: set[int] = set()
        """Brokers that no connection comes to, nor is left of."""
        self.refusing: set[int] = set()
        """Partitions whose leader says that it is none."""
        self.cut_off: dict[int, int] = {}
        """Brokers that have lost their cluster, and what each log was as long as then."""
        self.most: int | None = None
        """Records of a partition in an answer."""
        self.tried: list[int] = []
        """Brokers that somebody wanted to connect to."""
        self._known = dict(self.leaders)
        monkeypatch.setattr(control_tailing, "FetchLane", lambda at, **__: Lane(self, at.node))
        monkeypatch.setattr(control_tailing, "_LOOK_AGAIN_S", 0.0)

    @property
    def cluster(self) -> Cluster:
        return cast("Cluster", self)

    def write(self, partition: int, *values: bytes, epoch: int = 1) -> None:
        self.records[partition] += [(epoch, value) for value in values]

    async def topic(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id=self.topic_id)

    async def leader(self, tp: TopicPartition) -> PartitionLeader:
        if tp.partition not in self._known:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"west: {tp}")
        return PartitionLeader(self._known[tp.partition], 9)

    def forget_leaders(self, _: str) -> None:
        self._known = dict(self.leaders)

    def lose_leader(self, partition: int) -> None:
        del self.leaders[partition]
        self.forget_leaders(TOPIC)

    def leads(self, node: int, partition: int) -> bool:
        """Whether the broker takes itself for the leader."""
        if node in self.cut_off:
            return True
        return self.leaders.get(partition) == node and partition not in self.refusing

    async def connect(self, node: int, *, purpose: str) -> SimpleNamespace:
        del purpose
        self.tried.append(node)
        self.check(node)
        return SimpleNamespace(closed=False, node=node)

    async def shared(self, node: int) -> SimpleNamespace:
        return await self.connect(node, purpose="control")

    def check(self, node: int) -> None:
        if node in self.unreachable:
            raise ConnectionLostError(f"west: broker {node} is unreachable")


class Lane:
    """As a broker answers."""

    def __init__(self, logs: Logs, node: int) -> None:
        self.connection = SimpleNamespace(closed=False)
        self._logs, self._node = logs, node
        self._wanted: dict[int, FetchPoint] = {}

    def want(self, point: FetchPoint) -> None:
        self._wanted[point.partition] = point

    def forget(self, topic_id: UUID, partition: int, topic: str) -> None:
        del topic_id, topic
        del self._wanted[partition]

    def close(self) -> None:
        self.connection.closed = True

    async def fetch(self, *, max_bytes: int, max_wait_ms: int) -> Fetched:
        del max_bytes, max_wait_ms
        await asyncio.sleep(0)
        self._logs.check(self._node)
        self._logs.polls += 1
        frame, parts = bytearray(), []
        for point in self._wanted.values():
            start = len(frame)
            log = self._logs.records[point.partition][: self._logs.cut_off.get(self._node)]
            error, diverging = _verdict(log, point)
            if not self._logs.leads(self._node, point.partition):
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if error is ErrorCode.NONE and diverging is None:
                for at in range(point.offset, len(log))[: self._logs.most]:
                    frame += fetched((at, [log[at][1]]), epoch=log[at][0])
            parts.append(_part(point, error, diverging, (start, len(frame)), len(log)))
        return Fetched(frame, parts, 0)


def _verdict(
    log: list[tuple[int, bytes]], point: FetchPoint
) -> tuple[ErrorCode, tuple[int, int] | None]:
    """What a broker says of a place in its log, by its length and by its epochs."""
    if point.offset > len(log):
        return ErrorCode.OFFSET_OUT_OF_RANGE, None
    epochs = [epoch for epoch, _ in log if epoch <= point.last_fetched_epoch]
    if point.last_fetched_epoch < 0:
        return ErrorCode.NONE, None
    if not epochs:
        return ErrorCode.OFFSET_OUT_OF_RANGE, None
    is_other = epochs[-1] < point.last_fetched_epoch or len(epochs) < point.offset
    return ErrorCode.NONE, (epochs[-1], len(epochs)) if is_other else None


def _part(
    point: FetchPoint,
    error: ErrorCode,
    diverging: tuple[int, int] | None,
    span: tuple[int, int],
    stable: int,
) -> FetchedPartition:
    return FetchedPartition(
        topic=point.topic,
        topic_id=point.topic_id,
        partition=point.partition,
        error=error,
        high_watermark=stable,
        last_stable_offset=stable,
        log_start_offset=0,
        diverging_epoch=diverging,
        current_leader=None,
        preferred_replica=-1,
        aborted=[],
        start=span[0],
        end=span[1],
    )
