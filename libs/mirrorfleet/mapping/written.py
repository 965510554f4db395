"""A checkpoints topic as memory: which offsets of which group some fleet wrote."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TargetOffset, TopicId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, OffsetSpec, list_offsets
from mirrorfleet.records.checkpoint import Checkpoint, decode

_POLL_MS: Final = 100


class WrittenTail:
    """`<alias>.checkpoints.internal` of one cluster, read on at each `refresh`."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._at = TopicPartition(topic, 0)
        self._tail = PartitionTail(cluster, topic)
        self._last: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self._written: dict[str, dict[TopicPartition, tuple[TargetOffset, ...]]] = {}
        self._topic_id: TopicId | None = None
        self._there: set[tuple[str, TopicPartition]] = set()
        """Whose last checkpoint the topic has: it may be made again, or lose its tail."""

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()

    def of(self, group: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
        """Offsets that were written for a group, by partition."""
        return self._written.get(group, {})

    def last(self, point: Checkpoint) -> Checkpoint | None:
        """The newest checkpoint of the same group and partition; the topic may have lost it."""
        return self._last.get((point.group, point.partition))

    def has(self, point: Checkpoint) -> bool:
        """Whether the topic says just that of the group and partition."""
        return (point.group, point.partition) in self._there and self.last(point) == point

    @property
    def newest(self) -> Iterable[Checkpoint]:
        """The newest checkpoint of each group and partition."""
        return self._last.values()

    @property
    def groups(self) -> AbstractSet[str]:
        """Groups that something was written for."""
        return self._written.keys()

    def forget(self, groups: Iterable[str]) -> None:
        """Know nothing of these, until something is written for them again."""
        for group in groups:
            for partition in self._written.pop(group, ()):
                self._last.pop((group, partition), None)
                self._there.discard((group, partition))

    async def refresh(self) -> None:
        """Read up to the topic's end now; a topic that is not there says nothing.

        What one that is gone said of our own offsets stays known: they are still set.
        Raises: as `PartitionTail.poll`.
        """
        topic = (await self._cluster.metadata((self._at.topic,))).topics[self._at.topic]
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._there.clear()
            self._topic_id = None
            return
        end = await self._bound(LATEST)
        if topic.topic_id != self._topic_id or self._tail.next_offsets[0] > end:
            await self._begin()
            self._topic_id = topic.topic_id
        while (at := self._tail.next_offsets[0]) < end:
            try:
                await self._read()
            except BrokerError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await self._begin()
            if self._tail.next_offsets[0] <= at:
                # a log that lost its tail never comes there again while its only writer waits here
                end = min(end, await self._bound(LATEST))

    async def _begin(self) -> None:
        """Read all of it, as nothing of before may be there."""
        self._tail.start(0, await self._bound(EARLIEST))
        self._there.clear()

    async def _read(self) -> None:
        deadline_s = self._cluster.settings.request_timeout_s
        for record in await self._tail.poll(deadline_s=deadline_s, max_wait_ms=_POLL_MS):
            point = decode(record.key, record.value)
            if isinstance(point, Checkpoint):
                self._last[point.group, point.partition] = point
                self._there.add((point.group, point.partition))
                self._written.setdefault(point.group, {})[point.partition] = point.written

    async def _bound(self, spec: OffsetSpec) -> int:
        found = (await list_offsets(self._cluster, {self._at: spec}))[self._at]
        if isinstance(found, BrokerError):
            raise found
        return found.offset
