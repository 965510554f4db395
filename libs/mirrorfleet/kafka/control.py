"""Control topics as streams of records: followed, written.

Ordinary reading goes through aiokafka (this module only); the reads that correctness rests on
(`read_up_to`) and all writes use the wire client.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self, cast

import aiokafka
from aiokafka.errors import KafkaError

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.aiokafka_options import (
    check_tasks,
    client_options,
    drop_tasks,
    is_told_of,
    keep_up,
    token_trouble,
    translate,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_reading import ControlRecord, read_up_to
from mirrorfleet.kafka.control_writer import ControlWriter
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.wire.k01_fetch import Isolation

__all__ = ["ControlRecord", "ControlTail", "ControlWriter", "read_up_to"]

_POLL_MS: Final = 250
_LEADERS_MS: Final = 30_000
"""Who leads is asked for so often: one that its cluster has lost, and we have not, answers that
there is nothing new. (aiokafka tells no leader epoch, and would ask every five minutes.)"""
_STOP_S: Final = 1.0
"""aiokafka waits for a graceful end of TLS, which takes 30 s when the broker holds a fetch back."""
_ISOLATION: Final = {
    Isolation.READ_COMMITTED: "read_committed",
    Isolation.READ_UNCOMMITTED: "read_uncommitted",
}


class _Message(Protocol):
    """aiokafka's ConsumerRecord."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class _Consumer(Protocol):
    """What we use of AIOKafkaConsumer; its partitions are pairs like ours."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def assign(self, partitions: Sequence[object]) -> None: ...
    async def position(self, partition: object) -> int: ...
    async def getmany(self, *, timeout_ms: int) -> dict[tuple[str, int], list[_Message]]: ...


class ControlTail:
    """A control topic from its start, and then for ever; an async context manager and iterator.

    It follows the partitions that the topic had when it was entered. `caught_up` is whether every
    record that was there at that moment has been given out; `on_caught_up` is called once when
    it becomes so, also for an empty topic.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        isolation: Isolation = Isolation.READ_COMMITTED,
        on_caught_up: Callable[[], None] | None = None,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._wanted = partitions
        self._isolation = isolation
        self._on_caught_up = on_caught_up
        self._where = f"{settings.alias}: {topic}"
        self._options: dict[str, object] = {}
        self._consumer: _Consumer | None = None
        self._ready: deque[ControlRecord] = deque()
        self._behind: dict[TopicPartition, int] = {}
        self._next: dict[int, int] = {}
        """Behind the last record that came, by partition."""
        self._told = False
        self._missing_until = math.inf
        """Until when the topic may be missing in what aiokafka hears: at first it has not heard."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been given out."""
        return not self._behind and not self._ready and self._consumer is not None

    async def __aenter__(self) -> Self:
        """Find the topic and connect.

        Raises: BrokerError (UNKNOWN_TOPIC_OR_PARTITION, not allowed), ConnectionLostError,
        DeadlineError, AuthenticationError.
        """
        partitions = await self._look_up()
        options = self._options = client_options(self._settings)
        theirs = aiokafka.AIOKafkaConsumer(
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=_ISOLATION[self._isolation],
            metadata_max_age_ms=_LEADERS_MS,
            **options,
        )
        keep_up(theirs._client, self._settings)
        consumer = cast("_Consumer", theirs)
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                await consumer.start()
        except (KafkaError, TimeoutError) as error:
            await _stop(consumer)
            raise translate(error, self._where, options) from error
        consumer.assign([aiokafka.TopicPartition(*tp) for tp in partitions])
        now = asyncio.get_running_loop().time()
        self._missing_until = now + self._settings.request_timeout_s
        self._consumer = consumer
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._consumer is not None:
            await _stop(self._consumer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ControlRecord:
        """The next record; waits for ever. Raises: BrokerError, ConnectionLostError."""
        while not self._ready:
            self._tell()
            await self._poll()
        return self._ready.popleft()

    async def read_to_end(self) -> list[ControlRecord]:
        """The records up to where the topic ended when it was entered."""
        found: list[ControlRecord] = []
        while not self.caught_up:
            found.extend(self._ready)
            self._ready.clear()
            if self._behind:
                await self._poll()
        return found

    async def _look_up(self) -> list[TopicPartition]:
        """The partitions to follow; those with records are behind until their end is reached."""
        async with Cluster(self._settings) as cluster:
            topic = await cluster.topic(self._topic, refresh=True)
            numbers = self._wanted if self._wanted is not None else sorted(topic.partitions)
            partitions = [TopicPartition(self._topic, number) for number in numbers]
            ends = await list_offsets(
                cluster, dict.fromkeys(partitions, LATEST), isolation=self._isolation
            )
        for tp, end in ends.items():
            if isinstance(end, BrokerError):
                raise end
            self._behind[tp] = end.offset
        return partitions

    async def _poll(self) -> None:
        """Take what there is, or wait a little for it."""
        if self._consumer is None:
            raise ConnectionLostError(f"{self._where} is not open.")
        try:
            self._check(self._consumer)
            answer = await self._consumer.getmany(timeout_ms=0 if self._behind else _POLL_MS)
            if not answer and self._behind:
                answer = await self._consumer.getmany(timeout_ms=_POLL_MS)
            if answer:
                self._missing_until = 0.0
            for (topic, partition), messages in answer.items():
                self._go_on(partition, messages[0].offset, messages[-1].offset)
                self._ready.extend(
                    ControlRecord(topic, partition, m.offset, m.timestamp, m.key or b"", m.value)
                    for m in messages
                )
            await self._notice_ends(self._consumer)
        except KafkaError as error:
            raise translate(error, self._where, self._options) from error

    def _go_on(self, partition: int, first: int, last: int) -> None:
        """Raises: ConnectionLostError where aiokafka has silently begun anew, so that who follows
        does, too: what was read may not be there any more.
        """
        if first < (expected := self._next.get(partition, 0)):
            raise ConnectionLostError(
                f"{self._where}, partition {partition}: its log was cut or made again: record"
                f" {first} comes after {expected - 1}."
            )
        self._next[partition] = last + 1

    def _check(self, consumer: _Consumer) -> None:
        """Raises: KafkaError, ConnectionLostError when nothing may come for ever, which `getmany`
        does not tell from a quiet topic.
        """
        check_tasks(consumer)
        if is_told_of(consumer, self._topic):
            self._missing_until = 0.0
        elif asyncio.get_running_loop().time() >= self._missing_until:
            raise ConnectionLostError(f"{self._where}: its cluster does not tell of it any more.")
        if trouble := token_trouble(self._options, at_least_s=self._settings.request_timeout_s):
            raise ConnectionLostError(f"{self._where}: {trouble}")

    async def _notice_ends(self, consumer: _Consumer) -> None:
        """Drop the partitions whose position is past the end that they had at the start."""
        for tp, end in list(self._behind.items()):
            at = 0 if end == 0 else await _position(consumer, tp)
            if at is not None and at >= end:
                del self._behind[tp]

    def _tell(self) -> None:
        if self.caught_up and not self._told:
            self._told = True
            if self._on_caught_up is not None:
                self._on_caught_up()


async def _position(consumer: _Consumer, tp: TopicPartition) -> int | None:
    """None when aiokafka has not found the start yet, for which it would wait for ever."""
    try:
        async with asyncio.timeout(_POLL_MS / 1000):
            return await consumer.position(aiokafka.TopicPartition(*tp))
    except TimeoutError:
        return None


async def _stop(consumer: _Consumer) -> None:
    drop_tasks(consumer)
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await consumer.stop()
