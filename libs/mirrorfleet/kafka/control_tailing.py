"""Following partitions of a control topic from known offsets on, without ever skipping a record.

A consumer that is too slow jumps to the log's new start; here OFFSET_OUT_OF_RANGE is raised, so
that the caller can fetch what it missed from where it was moved to (segments -> archive). It is
raised as well where the log is another one than was read: it lost its tail, or was made again, even
if it has grown past us since.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    deciding,
)
from mirrorfleet.core.ids import TopicId, TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_reading import FETCH_BYTES, ControlRecord, Reading
from mirrorfleet.kafka.fetcher import FetchedPartition, FetchLane, FetchPoint
from mirrorfleet.kafka.together import all_of

_WAIT_MS: Final = 500
_LOOK_AGAIN_S: Final = 1.0
"""Between two looks for a leader of what has none, or for a broker that could not be reached."""
_SILENT_S: Final = 5.0
"""For an answer of which nothing has come, beyond what the broker may wait: all others wait for it.
Brokers of three have another leader after 9 s; one that is only slow is asked again."""
_DOUBT_S: Final = 30.0
"""Between two looks in any case: a leader that its cluster has lost, and we have not, serves what
it has for ever and tells nobody of its heir (Java clients look each 5 min, metadata.max.age.ms)."""
Nodes = dict[int, list[FetchPoint]]
"""What is wanted of each broker."""


class PartitionTail:
    """Committed records of partitions of one topic, read from their leaders."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._readings: dict[int, Reading] = {}
        self._lanes: dict[int, FetchLane] = {}
        self._asked: dict[int, int] = {}
        """The broker whose session has it, by partition."""
        self._taken: list[ControlRecord] = []
        self._ends: dict[int, int] = {}
        """Where committed records ended when the leader answered last."""
        self._topic_id: TopicId | None = None
        self._looked_at = -math.inf
        self._away: dict[int, tuple[float, MirrorfleetError]] = {}
        """Brokers that could not be reached, with until when they are not asked again."""
        self.out_of_range: set[int] = set()
        """Partitions that OFFSET_OUT_OF_RANGE was raised for, until they are started or stopped."""
        self.leaderless: dict[int, MirrorfleetError] = {}
        """Partitions that the last poll left out: nobody leads them, or we cannot reach who does.
        """

    def start(self, partition: int, offset: int) -> None:
        """Read this partition from `offset` on; a running poll does not see it yet."""
        self._readings[partition] = Reading(TopicPartition(self._topic, partition), offset, None)
        self.out_of_range.discard(partition)

    def stop(self, partition: int) -> None:
        """Read this partition no more, after OFFSET_OUT_OF_RANGE: no session has it then."""
        self._readings.pop(partition, None)
        self._ends.pop(partition, None)
        self.leaderless.pop(partition, None)
        self.out_of_range.discard(partition)

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """Behind the last record given out, or the last marker seen, by partition."""
        return {number: reading.next_offset for number, reading in self._readings.items()}

    @property
    def left(self) -> int:
        """Offsets that are not given out yet, as far as the leaders have told."""
        at = self.next_offsets
        return sum(max(0, end - at[number]) for number, end in self._ends.items())

    def close(self) -> None:
        """Close the connections."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        self._asked.clear()

    async def poll(self, *, deadline_s: float, max_wait_ms: int = _WAIT_MS) -> list[ControlRecord]:
        """The next records, in order in each partition; none after `max_wait_ms` without any.

        Leader moves and lost connections are followed until the deadline. A partition without a
        leader, or whose leader cannot be reached, is left out while others are read: see
        `leaderless`.
        Raises: BrokerError OFFSET_OUT_OF_RANGE and what else a retry cannot help, DeadlineError,
        AuthenticationError, CorruptBatchError.
        """
        attempts = Attempts(f"{self._cluster.name}: {self._topic}", deadline_s, self._cluster.dice)
        while True:
            try:
                await self._round(max_wait_ms)
                return self._given()
            except MirrorfleetError as error:
                self.close()
                self._cluster.forget_leaders(self._topic)
                if not error.retriable:
                    raise
                if self._taken:
                    return self._given()  # who has answered does not wait for who has not
                await attempts.pause(error)

    def _given(self) -> list[ControlRecord]:
        """What was taken: positions are behind it, so it is not read again."""
        taken, self._taken = self._taken, []
        return taken

    async def _round(self, max_wait_ms: int) -> None:
        """Ask each broker once. Raises: as `poll`; of brokers that are away only if all are."""
        nodes = self._without_away(await self._points())
        failed: dict[int, MirrorfleetError] = {}
        await all_of(
            self._tried(node, points, max_wait_ms, failed) for node, points in nodes.items()
        )
        for node, error in failed.items():
            self.leaderless.update((point.partition, error) for point in nodes[node])
        is_away = [
            isinstance(each, ConnectionLostError | DeadlineError) for each in failed.values()
        ]
        if failed and not (all(is_away) and len(failed) < len(nodes)):
            raise deciding(BaseExceptionGroup("brokers", list(failed.values())))
        if failed:
            self._cluster.forget_leaders(self._topic)

    async def _tried(
        self,
        node: int,
        points: list[FetchPoint],
        max_wait_ms: int,
        failed: dict[int, MirrorfleetError],
    ) -> None:
        """Fetch of one broker, and note why that failed.

        One that is away is not asked again for as long as the others waited for it: they may have
        waited for a time limit, and it is not to slow down each poll. Raises: what is not ours.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._fetch(node, points, max_wait_ms)
        except MirrorfleetError as error:
            failed[node] = error
            if isinstance(error, ConnectionLostError | DeadlineError):
                now = loop.time()
                self._away[node] = (now + max(now - began, _LOOK_AGAIN_S), error)
            if (lane := self._lanes.pop(node, None)) is not None:
                lane.close()

    def _without_away(self, nodes: Nodes) -> Nodes:
        """Without brokers that are not to be asked yet; all of them when no other is left."""
        now = asyncio.get_running_loop().time()
        self._away = {node: told for node, told in self._away.items() if now < told[0]}
        near = {node: points for node, points in nodes.items() if node not in self._away}
        if not near:
            return nodes
        for node in nodes.keys() - near.keys():
            _, error = self._away[node]
            self.leaderless.update((point.partition, error) for point in nodes[node])
            self._look_for_leaders(_LOOK_AGAIN_S)
        return near

    async def _points(self) -> Nodes:
        """What is wanted of each broker. Raises: BrokerError; also when nothing has a leader."""
        nodes: Nodes = {}
        self._look_for_leaders(_DOUBT_S)
        topic = await self._cluster.topic(self._topic)
        before, self._topic_id = self._topic_id, topic.topic_id
        if before not in (None, topic.topic_id):
            self.out_of_range.update(self._readings)
            where = f"{self._cluster.name}: reading {self._topic}, which was made again"
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, where)
        self.leaderless = {}
        for number, reading in list(self._readings.items()):
            try:
                leader = await self._cluster.leader(reading.tp)
            except BrokerError as error:
                if error.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                    raise
                self.leaderless[number] = error
                continue
            point = FetchPoint(
                topic=self._topic,
                topic_id=topic.topic_id,
                partition=number,
                offset=reading.next_offset,
                leader_epoch=leader.leader_epoch,
                last_fetched_epoch=reading.epoch,
                max_bytes=FETCH_BYTES,
            )
            self._move(point, leader.node_id)
            nodes.setdefault(leader.node_id, []).append(point)
        if self.leaderless:
            if not nodes:
                raise next(iter(self.leaderless.values()))
            self._look_for_leaders(_LOOK_AGAIN_S)
        return nodes

    def _move(self, point: FetchPoint, node: int) -> None:
        """A session that goes on without its leader must not bring what that one still has."""
        before = self._asked.get(point.partition, node)
        if before != node and before in self._lanes:
            self._lanes[before].forget(point.topic_id, point.partition, point.topic)
        self._asked[point.partition] = node

    def _look_for_leaders(self, every_s: float) -> None:
        """Have the next poll ask for them, when they were not asked for lately."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= every_s:
            self._looked_at = now
            self._cluster.forget_leaders(self._topic)

    async def _fetch(self, node: int, points: list[FetchPoint], max_wait_ms: int) -> None:
        lane = self._lanes.get(node)
        if lane is None or lane.connection.closed:
            connection = await self._cluster.connect(node, purpose=f"tail {self._topic}")
            silent_s = min(self._cluster.settings.request_timeout_s, _SILENT_S)
            lane = self._lanes[node] = FetchLane(connection, deadline_s=silent_s)
        for point in points:
            lane.want(point)
        fetched = await lane.fetch(max_bytes=FETCH_BYTES, max_wait_ms=max_wait_ms)
        for found in fetched.partitions:
            reading = self._readings.get(found.partition)
            if reading is None:
                continue
            error = _error_of(found)
            if error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.out_of_range.add(found.partition)
            if error is not ErrorCode.NONE:
                raise BrokerError(error, f"{self._cluster.name}: reading {reading.tp}")
            self._ends[found.partition] = found.last_stable_offset
            self._taken.extend(reading.take(fetched, found))


def _error_of(found: FetchedPartition) -> ErrorCode:
    """Where the leader has other records than we read, our place is not one of its log."""
    is_other = found.error is ErrorCode.NONE and found.diverging_epoch is not None
    return ErrorCode.OFFSET_OUT_OF_RANGE if is_other else found.error
