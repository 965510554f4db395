"""Following partitions of a control topic from known offsets on, without ever skipping a record.

A consumer that is too slow jumps to the log's new start; here OFFSET_OUT_OF_RANGE is raised, so
that the caller can fetch what it missed from where it was moved to (segments -> archive).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_reading import FETCH_BYTES, ControlRecord, Reading
from mirrorfleet.kafka.fetcher import FetchLane, FetchPoint
from mirrorfleet.kafka.together import all_of

_WAIT_MS: Final = 500


class PartitionTail:
    """Committed records of partitions of one topic, read from their leaders."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._readings: dict[int, Reading] = {}
        self._lanes: dict[int, FetchLane] = {}
        self._taken: list[ControlRecord] = []

    def start(self, partition: int, offset: int) -> None:
        """Read this partition from `offset` on; a running poll does not see it yet."""
        self._readings[partition] = Reading(TopicPartition(self._topic, partition), offset, None)

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """Behind the last record given out, or the last marker seen, by partition."""
        return {number: reading.next_offset for number, reading in self._readings.items()}

    def close(self) -> None:
        """Close the connections."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    async def poll(self, *, deadline_s: float, max_wait_ms: int = _WAIT_MS) -> list[ControlRecord]:
        """The next records, in order in each partition; none after `max_wait_ms` without any.

        Leader moves and lost connections are followed until the deadline.
        Raises: BrokerError OFFSET_OUT_OF_RANGE and what else a retry cannot help, DeadlineError,
        AuthenticationError, CorruptBatchError.
        """
        attempts = Attempts(f"{self._cluster.name}: {self._topic}", deadline_s, self._cluster.dice)
        while True:
            try:
                await self._round(max_wait_ms)
                # What one broker gave before another one failed waits here: it is not read again.
                taken, self._taken = self._taken, []
                return taken
            except MirrorfleetError as error:
                self.close()
                self._cluster.forget_leaders(self._topic)
                if not error.retriable:
                    raise
                await attempts.pause(error)

    async def _round(self, max_wait_ms: int) -> None:
        nodes: dict[int, list[FetchPoint]] = {}
        topic = await self._cluster.topic(self._topic)
        for number, reading in list(self._readings.items()):
            leader = await self._cluster.leader(reading.tp)
            point = FetchPoint(
                topic=self._topic,
                topic_id=topic.topic_id,
                partition=number,
                offset=reading.next_offset,
                leader_epoch=leader.leader_epoch,
                max_bytes=FETCH_BYTES,
            )
            nodes.setdefault(leader.node_id, []).append(point)
        await all_of(self._fetch(node, points, max_wait_ms) for node, points in nodes.items())

    async def _fetch(self, node: int, points: list[FetchPoint], max_wait_ms: int) -> None:
        lane = self._lanes.get(node)
        if lane is None or lane.connection.closed:
            connection = await self._cluster.connect(node, purpose=f"tail {self._topic}")
            timeout_s = self._cluster.settings.request_timeout_s
            lane = self._lanes[node] = FetchLane(connection, deadline_s=timeout_s)
        for point in points:
            lane.want(point)
        fetched = await lane.fetch(max_bytes=FETCH_BYTES, max_wait_ms=max_wait_ms)
        for found in fetched.partitions:
            if found.error is not ErrorCode.NONE:
                where = f"{self._cluster.name}: reading {self._topic}-{found.partition}"
                raise BrokerError(found.error, where)
            reading = self._readings.get(found.partition)
            if reading is not None:
                self._taken.extend(reading.take(fetched, found))
