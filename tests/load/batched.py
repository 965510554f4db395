"""A lane that writes whole batches: each run of records for one partition is encoded once.

A tenth of the CPU that librdkafka and its bindings take for as many records: where a thousand
partitions are loaded on two cores, brokers and fleet need these. It writes with the client under
test, so it proves nothing about that: the judge reads with librdkafka. Neither codecs nor
transactions, and no second try of what has no answer: it is `unknown`, and ends the lane.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterAlias, TopicPartition
from mirrorfleet.kafka.cluster import Cluster, PartitionLeader
from mirrorfleet.kafka.producer import ProduceEntry, ProduceLane
from mirrorfleet.wire.batch import HEADER_SIZE
from tests.faultkit.hold import hold
from tests.faultkit.waiting import until
from tests.load.lanes import ANSWER_S, Lane
from tests.load.recipes import Record, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from threading import Event

    from tests.load.tally import At

TURN_S: Final = 0.05
"""From one request to the next."""
LARGEST: Final = 1_000_000
"""Bytes of a batch: what brokers take by default, less what they count besides."""
MOST: Final = 64
"""Batches in a request."""
_ELSEWHERE: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Nothing was appended."""

Batch = tuple["At", bytes]
"""Where it goes, and it."""


class BatchedLane(Lane):
    """A lane without librdkafka. Each run of `job.sticky` records is one batch."""

    def _open(self) -> None:
        """It has its producer only where its loop runs."""

    def run(self, stop: Event) -> None:
        """Produce at the lane's rate until `stop`; each request is answered before the next."""
        asyncio.run(self._run(stop))

    async def _run(self, stop: Event) -> None:
        servers = self.job.client["bootstrap.servers"].split(",")
        settings = ClusterSettings(alias=ClusterAlias("load"), bootstrap=tuple(servers))
        async with Cluster(settings) as cluster:
            writer = _Writer(cluster)
            began, first = time.monotonic(), self._number
            try:
                while not stop.is_set():
                    made = self._number - first
                    due = int((time.monotonic() - began) * self.job.rate) - made
                    await self._write(writer, [*self._batches(due)])
                    await hold(TURN_S, reason="the pace of the load")
            finally:
                writer.close()

    async def _write(self, writer: _Writer, batches: Sequence[tuple[At, int, bytes]]) -> None:
        counts: Counter[At] = Counter()
        for at, count, _ in batches:
            counts[at] += count
        try:
            await writer.write([(at, batch) for at, _, batch in batches])
        except BaseException:
            self.tally.unknown.update(counts)
            raise
        self.tally.committed.update(counts)

    def _batches(self, due: int) -> Iterator[tuple[At, int, bytes]]:
        """The whole runs among the next `due` records."""
        pool, now_ms, run = self.job.pool, int(time.time() * 1000), self.job.sticky
        numbers = range(self._number, (self._number + due) // run * run)
        self._number += len(numbers)
        made = (record(pool[number % len(pool)], number, now_ms) for number in numbers)
        for at, each in groupby(made, lambda one: (one[0], one[1])):
            left = [*each]
            while left:
                count, batch = _encoded(left)
                yield at, count, batch
                left = left[count:]


def _encoded(records: Sequence[Record]) -> tuple[int, bytes]:
    """As many of the records as there is room for in one batch, and that."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, LARGEST)
    count = 0
    for each in records:
        stamp = each.timestamp_ms or None
        if builder.append(count, stamp, each.key, each.value, each.headers or []) is None:
            break
        count += 1
    return count, bytes(builder.build())


class _Writer:
    """A connection to each leader."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lanes: dict[int, ProduceLane] = {}

    async def write(self, batches: Sequence[Batch]) -> None:
        """All of them, in their order in each partition. Raises: RuntimeError for a refusal."""
        left = [*batches]

        async def are_written() -> bool:
            """Brokers are told of a new topic one after the other."""
            nonlocal left
            left = await self._written_where_known(left)
            return not left

        await until(are_written, deadline_s=ANSWER_S, what="all batches to be written")

    async def _written_where_known(self, batches: Sequence[Batch]) -> list[Batch]:
        """Give those that are not written: of partitions whose leader is another one."""
        left: list[Batch] = []
        moved: set[At] = set()
        for request in _requests(batches):
            places = {TopicPartition(*at): at for at, _ in request}
            leaders = await self._cluster.leaders(places)
            moved |= {
                at
                for place, at in places.items()
                if not isinstance(leaders[place], PartitionLeader)
            }
            by_node: dict[int, list[ProduceEntry]] = defaultdict(list)
            for at, batch in request:
                leader = leaders[TopicPartition(*at)]
                if at not in moved and isinstance(leader, PartitionLeader):
                    by_node[leader.node_id].append(_entry(at, batch))
            for node, entries in by_node.items():
                moved |= await self._send(node, entries)
            left += (each for each in request if each[0] in moved)
        for topic in {topic for topic, _ in moved}:
            self._cluster.forget_leaders(topic)
        return left

    async def _send(self, node: int, entries: Sequence[ProduceEntry]) -> set[At]:
        lane = await self._lane(node)
        await lane.ready()
        moved: set[At] = set()
        for ack in await lane.send(entries):
            if ack.error in _ELSEWHERE:
                moved.add((ack.topic, ack.partition))
            elif ack.error is not ErrorCode.NONE:
                raise RuntimeError(f"{ack.topic}-{ack.partition}: {ack.error.name}")
        return moved

    async def _lane(self, node: int) -> ProduceLane:
        if node not in self._lanes:
            self._lanes[node] = ProduceLane(await self._cluster.connect(node, purpose="load"))
        return self._lanes[node]

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()


def _entry(at: At, batch: bytes) -> ProduceEntry:
    head, payload = batch[:HEADER_SIZE], memoryview(batch)[HEADER_SIZE:]
    return ProduceEntry(at[0], NO_TOPIC_ID, at[1], head, payload)


def _requests(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """No request has two batches for one partition: brokers keep the last of them only."""
    request: dict[At, bytes] = {}
    for at, batch in batches:
        if at in request or len(request) >= MOST:
            yield [*request.items()]
            request = {}
        request[at] = batch
    if request:
        yield [*request.items()]
