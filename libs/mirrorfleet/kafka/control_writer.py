"""Writing records of ours to control topics outside of transactions: acks=all, again if in doubt.

For topics whose readers take the last value of a key, or count events by their id: a record may be
written twice when an answer is lost. What must not is written in a slot's transaction instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry, ProduceLane
from mirrorfleet.wire.records import NO_TIME, control_batch
from mirrorfleet.wire.rewrite import stamp

if TYPE_CHECKING:
    from mirrorfleet.wire.copybatch import CopyBatch

T = TypeVar("T")

Entry = tuple[bytes | None, bytes | None]
"""Key (None where the topic has none) and value (None is a tombstone)."""

_NO_PRODUCER: Final = ProducerIdentity(-1, -1)
_NO_SEQUENCE: Final = -1
_MAX_BATCH_BYTES: Final = 512 << 10
"""Well below the smallest usual max.message.bytes (1 MB)."""
_RECORD_OVERHEAD: Final = 32
_ATTEMPT_S: Final = 10.0
"""For one attempt: twice what a broker waits for its followers. One that is frozen or cut off costs
no more, and meanwhile its partitions get another leader."""


class ControlWriter:
    """Writes to a partition one at a time, in order; those to others need not wait for them."""

    def __init__(self, cluster: Cluster, *, deadline_s: float | None = None) -> None:
        """`deadline_s` of one part of a `write`; without it the cluster's request time-out."""
        self._cluster = cluster
        self._deadline_s = deadline_s
        self._lanes: dict[int, ProduceLane] = {}
        self._writing: dict[TopicPartition, asyncio.Lock] = {}
        self._connecting: dict[int, asyncio.Lock] = {}

    async def write(self, tp: TopicPartition, entries: Sequence[Entry], now_ms: int) -> None:
        """Write records of time `now_ms`, or of none where the broker refuses that time; when it
        returns, all in-sync replicas have them.

        Raises: DeadlineError (with the last refusal), BrokerError (not allowed, too large),
        AuthenticationError. Some of the records may be written then.
        """
        await self.write_out(tp, [*entries], now_ms)

    async def write_out(self, tp: TopicPartition, waiting: list[Entry], now_ms: int) -> None:
        """As `write`; takes out of `waiting` what is written, also where the rest then is not."""
        async with self._writing.setdefault(tp, asyncio.Lock()):
            for part in _parts(tuple(waiting)):
                await self._write_batch(tp, part, now_ms)
                del waiting[: len(part)]

    def close(self) -> None:
        """Close the connections."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    async def _write_batch(self, tp: TopicPartition, entries: Sequence[Entry], now_ms: int) -> None:
        where = f"{self._cluster.name}: writing {tp}"
        seconds = self._deadline_s or self._cluster.settings.request_timeout_s
        attempts = Attempts(where, seconds, self._cluster.dice)
        try:
            await self._write_until(tp, control_batch(entries, now_ms), where, attempts)
        except BrokerError as error:
            if error.code is not ErrorCode.INVALID_TIMESTAMP:
                raise
            # Our clock is far ahead of the broker's (KIP-937), and the topic takes time from us,
            # as MM2's do, where nothing is decided by it. A record without a time is never refused
            # for it, and retention counts from the write then; one of time 0 would be gone at once.
            await self._write_until(tp, control_batch(entries, NO_TIME), where, attempts)

    async def _write_until(
        self, tp: TopicPartition, batch: CopyBatch, where: str, attempts: Attempts
    ) -> None:
        """Try again while that may help, and there is time."""
        header = stamp(batch, _NO_PRODUCER, _NO_SEQUENCE, transactional=False)
        while True:
            try:
                ack = await self._attempt(tp, header, batch.payload, attempts)
                if ack.error is ErrorCode.NONE:
                    return
                raise BrokerError(ack.error, where, detail=ack.message or "")
            except (ConnectionLostError, DeadlineError) as error:
                await attempts.pause(error)
            except BrokerError as error:
                if not error.retriable:
                    raise
                await attempts.pause(error)
            self._cluster.forget_leaders(tp.topic)

    async def _attempt(
        self,
        tp: TopicPartition,
        header: bytes,
        payload: memoryview | bytes,
        attempts: Attempts,
    ) -> ProduceAck:
        """One attempt under its own deadline."""
        limit_s = min(attempts.left_s, _ATTEMPT_S)
        try:
            async with asyncio.timeout(limit_s):
                return await self._send(tp, header, payload, limit_s)
        except TimeoutError:
            raise DeadlineError(f"no answer within {limit_s:.1f} s.") from None

    async def _send(
        self, tp: TopicPartition, header: bytes, payload: memoryview | bytes, limit_s: float
    ) -> ProduceAck:
        leader = await self._cluster.leader(tp)
        topic = await self._cluster.topic(tp.topic)
        lane = await self._lane(leader.node_id)
        if (muted_s := lane.connection.muted_s) > limit_s:  # kept: a new one would not know of it
            who = f"its quota wants nothing from us for {muted_s:.1f} s"
            raise DeadlineError(f"broker {leader.node_id} takes no request in time: {who}.")
        try:
            await lane.ready()
            entry = ProduceEntry(tp.topic, topic.topic_id, tp.partition, header, payload)
            (ack,) = await lane.send((entry,))
        except asyncio.CancelledError:  # no answer in time
            lane.close()
            raise
        return ack

    async def _lane(self, node_id: int) -> ProduceLane:
        async with self._connecting.setdefault(node_id, asyncio.Lock()):
            lane = self._lanes.get(node_id)
            if lane is None or lane.connection.closed:
                connection = await self._cluster.connect(node_id, purpose="control writer")
                lane = ProduceLane(connection)
                self._lanes[node_id] = lane
            return lane


async def write_waiting(
    writer: ControlWriter,
    tp: TopicPartition,
    queue: deque[T],
    encode: Callable[[T], Entry],
    now_ms: int,
) -> None:
    """Write what waits in a queue, and take out of it what was written; one at a time a queue.

    Raises: as `ControlWriter.write`; what was not written waits on.
    """
    waiting = tuple(queue)
    left = [encode(each) for each in waiting]
    try:
        if left:
            await writer.write_out(tp, left, now_ms)
    finally:
        for each in waiting[: len(waiting) - len(left)]:
            if queue and queue[0] is each:  # unless it fell out of a full queue meanwhile
                queue.popleft()


def _parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """`entries` cut so that no batch grows over the mark; a larger record goes alone."""
    begin = size = 0
    for index, (key, value) in enumerate(entries):
        length = len(key or b"") + len(value or b"") + _RECORD_OVERHEAD
        if index > begin and size + length > _MAX_BATCH_BYTES:
            yield entries[begin:index]
            begin, size = index, 0
        size += length
    if entries:
        yield entries[begin:]
