"""A transactional producer by hand, and what a read_committed consumer sees of its writes."""

from __future__ import annotations

from uuid import uuid4

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.producer import ProduceEntry, ProduceLane
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.wire.aborted import AbortedFilter
from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.records import records_of
from tests.contract.kafka.making import entry, fetch_one, lane_to, point
from tests.faultkit.waiting import until

_NOT_YET = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}
"""What the first produce of a transaction is answered while markers are being written."""


class Writer:
    """A transactional producer of one partition, by hand."""

    def __init__(self, transactions: Transactions, lane: ProduceLane, topic: TopicMeta) -> None:
        self.transactions = transactions
        self.lane = lane
        self.topic = topic
        self.producer = ProducerIdentity(-1, -1)
        self.sequence = 0

    async def init(self, timeout_ms: int = 15_000) -> None:
        self.producer = await self.transactions.init_producer_id(timeout_ms=timeout_ms)
        self.sequence = 0

    async def write(self, value: bytes) -> None:
        batch = entry(self.topic, 0, (b"k", value), producer=self.producer, sequence=self.sequence)
        if self.transactions.version is TransactionVersion.V1:
            at = TopicPartition(self.topic.name, 0)
            await self.transactions.add_partitions(self.producer, [at])
        error = await self.answer(batch)
        assert error is ErrorCode.NONE, error
        self.sequence += 1

    async def answer(self, batch: ProduceEntry) -> ErrorCode:
        """What the broker says to `batch` once the transaction before has all its markers."""
        answers: list[ErrorCode] = []

        async def decided() -> bool:
            (ack,) = await self.lane.send([batch])
            answers.append(ack.error)
            return ack.error not in _NOT_YET

        await until(decided, deadline_s=10, what="markers of the transaction before")
        return answers[-1]

    async def end(self, *, commit: bool) -> None:
        following = await self.transactions.end(self.producer, commit=commit)
        if following != self.producer:
            self.producer, self.sequence = following, 0


async def writer_on(cluster: Cluster, topic: TopicMeta, name: str | None = None) -> Writer:
    version = await cluster.transaction_version()
    name = name or f"slot-{uuid4().hex[:8]}"
    connection = await cluster.connect(1, purpose="test")
    lane = ProduceLane(connection, transactional_id=name, transactions=version)
    made = Writer(Transactions(cluster, name, version), lane, topic)
    await made.init()
    return made


async def committed(cluster: Cluster, topic: TopicMeta) -> list[bytes | None]:
    """What a read_committed consumer sees of partition 0."""
    fetched, found = await fetch_one(await lane_to(cluster, topic), point(topic, 0, 0))
    aborted, seen = AbortedFilter(found.aborted), []
    for header in walk(fetched.buffer, found.start, found.end):
        hidden = aborted.covers(header)
        if header.is_control:
            aborted.end(header.producer_id)
        elif not hidden:
            seen += [record.value for record in records_of(fetched.buffer, header)]
    return seen


async def until_committed(cluster: Cluster, topic: TopicMeta, values: list[bytes]) -> None:
    """Markers are written after EndTxn has answered."""

    async def seen() -> bool:
        return await committed(cluster, topic) == values

    await until(seen, deadline_s=10, what=f"{values} and nothing else, committed")
