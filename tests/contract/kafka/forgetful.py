"""A broker in this process that coordinates ids and leads a slot's control partitions, and forgets
markers where it is told to, as one of 4.3 does that finds no leader (KAFKA-20734).
"""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i64

from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka import described_transactions
from tests.fakes import broker as fake
from tests.fakes.broker import Asked, FakeBroker

EPOCH_ENDS, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS = 23, 61, 65


@dataclass
class Known:
    """A transactional id as its coordinator has it (v2)."""

    producer: ProducerIdentity
    state: str = "Empty"
    partitions: set[TopicPartition] = field(default_factory=set)


class ForgetfulBroker(FakeBroker):
    """Broker 1. `seen_ends` are the markers and records of the control partitions, in order."""

    def __init__(self, *control: TopicPartition) -> None:
        super().__init__()
        self.control = control
        self.ids: dict[str, Known] = {}
        self.open: dict[tuple[TopicPartition, int], int] = {}
        """Epochs of open transactions, by partition and producer id."""
        self.seen_ends: list[str] = []
        self.forgets: set[TopicPartition] = set()
        """The next marker there is forgotten."""
        self.leaderless: set[TopicPartition] = set()
        self.apis |= {EPOCH_ENDS: (4, 4), DESCRIBE_PRODUCERS: (0, 0), DESCRIBE_TRANSACTIONS: (0, 0)}
        self._defaults |= {
            fake.METADATA: self._topics,
            fake.PRODUCE: self._produce,
            fake.INIT_PRODUCER_ID: self._init,
            fake.ADD_PARTITIONS: self._add,
            fake.END_TXN: self._end,
            EPOCH_ENDS: self._epoch_ends,
            DESCRIBE_PRODUCERS: self._describe_producers,
            DESCRIBE_TRANSACTIONS: self._describe_transactions,
        }

    def leave_open(self, at: TopicPartition, producer: ProducerIdentity) -> None:
        """Something is appended there, and no marker."""
        self.open[at, producer.producer_id] = producer.epoch

    def _ended(self, known: Known, *, commit: bool) -> None:
        for at in sorted(known.partitions - self.forgets):
            self.open.pop((at, known.producer.producer_id), None)
            self.seen_ends.append(f"{'commit' if commit else 'abort'} {at}")
        self.forgets -= known.partitions
        known.partitions = set()
        known.state = "CompleteCommit" if commit else "CompleteAbort"
        known.producer = known.producer._replace(epoch=known.producer.epoch + 1)

    def _topics(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        wanted = {topic.name for topic in asked.request.topics or ()}
        topics = tuple(
            schema.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=at.topic,
                topic_id=uuid.UUID(int=number + 1),
                is_internal=False,
                partitions=(self._partition(schema, at),),
            )
            for number, at in enumerate(self.control)
            if at.topic in wanted
        )
        return dataclasses.replace(self.metadata(asked), topics=topics)

    def _partition(self, schema: Any, at: TopicPartition) -> object:
        lost = at in self.leaderless
        return schema.MetadataResponsePartition(
            error_code=ErrorCode.leader_not_available if lost else ErrorCode.none,
            partition_index=at.partition,
            leader_id=-1 if lost else 1,
            leader_epoch=0,
            replica_nodes=(1,),
            isr_nodes=(1,),
            offline_replicas=(),
        )

    def _produce(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        known = self.ids[asked.request.transactional_id]
        (topic,) = asked.request.topic_data
        (data,) = topic.partition_data
        at = self.control[topic.topic_id.int - 1]
        self._begin(known, at)
        self.leave_open(at, known.producer)
        self.seen_ends.append(f"record {at}")
        response = schema.PartitionProduceResponse(
            index=data.index, error_code=ErrorCode.none, base_offset=0, record_errors=()
        )
        answer = schema.TopicProduceResponse(
            topic_id=topic.topic_id, partition_responses=(response,)
        )
        return schema.ProduceResponse(responses=(answer,), throttle_time=fake.no_time())

    def _begin(self, known: Known, at: TopicPartition) -> None:
        known.state = "Ongoing"
        known.partitions.add(at)

    def _init(self, asked: Asked) -> object:
        name = asked.request.transactional_id
        known = self.ids.setdefault(name, Known(ProducerIdentity(7000 + len(self.ids), -1)))
        if known.state == "Ongoing":
            self._ended(known, commit=False)
        known.state = "Empty"
        known.producer = known.producer._replace(epoch=known.producer.epoch + 1)
        answer: Any = fake.init_answer(asked, ErrorCode.none, known.producer.epoch)
        return dataclasses.replace(answer, producer_id=known.producer.producer_id)

    def _add(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        known = self.ids[asked.request.v3_and_below_transactional_id]
        results = []
        for topic in asked.request.v3_and_below_topics:
            fine = []
            for number in topic.partitions:
                self._begin(known, TopicPartition(topic.name, number))
                fine.append(
                    schema.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=ErrorCode.none
                    )
                )
            results.append(
                schema.AddPartitionsToTxnTopicResult(
                    name=topic.name, results_by_partition=tuple(fine)
                )
            )
        return schema.AddPartitionsToTxnResponse(
            throttle_time=fake.no_time(), results_by_topic_v3_and_below=tuple(results)
        )

    def _end(self, asked: Asked) -> object:
        request = asked.request
        known = self.ids[request.transactional_id]
        if request.producer_epoch != known.producer.epoch:
            return fake.end_answer(asked, ErrorCode.producer_fenced)
        self._ended(known, commit=request.committed)
        return fake.end_answer(asked, ErrorCode.none)

    def _epoch_ends(self, asked: Asked) -> object:
        """It leads all of them."""
        schema = fake.answers(asked)
        topics = tuple(
            schema.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    schema.EpochEndOffset(error_code=ErrorCode.none, partition=one.partition)
                    for one in topic.partitions
                ),
            )
            for topic in asked.request.topics
        )
        return schema.OffsetForLeaderEpochResponse(throttle_time=fake.no_time(), topics=topics)

    def _describe_producers(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        topics = tuple(
            schema.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    self._producers(schema, TopicPartition(topic.name, number))
                    for number in topic.partition_indexes
                ),
            )
            for topic in asked.request.topics
        )
        return schema.DescribeProducersResponse(throttle_time=fake.no_time(), topics=topics)

    def _producers(self, schema: Any, at: TopicPartition) -> object:
        return schema.PartitionResponse(
            partition_index=at.partition,
            error_code=ErrorCode.none,
            active_producers=tuple(
                schema.ProducerState(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    coordinator_epoch=0,
                    current_txn_start_offset=7,
                )
                for (where, producer_id), epoch in self.open.items()
                if where == at
            ),
        )

    def _describe_transactions(self, asked: Asked) -> object:
        (name,) = asked.request.transactional_ids
        known = self.ids.get(name)
        found = known or Known(ProducerIdentity(-1, -1))
        missing = ErrorCode.transactional_id_not_found
        state: Any = described_transactions.TransactionState(
            error_code=missing if known is None else ErrorCode.none,
            transactional_id=name,
            transaction_state=found.state,
            transaction_timeout=fake.no_time(),
            transaction_start_time=i64(-1),
            producer_id=ProducerId(found.producer.producer_id),
            producer_epoch=i16(found.producer.epoch),
            topics=(),
        )
        return described_transactions.DescribeTransactionsResponse(
            throttle_time=fake.no_time(), transaction_states=(state,)
        )
