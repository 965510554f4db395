"""Producers and transactions as the brokers see them: for take-over checks and for operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.list_transactions.v0.response import ListTransactionsResponse
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import i32

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of, count_ms
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.kafka.described_transactions import DescribeTransactionsResponse
from mirrorfleet.kafka.each import (
    LeaderEpochs,
    Results,
    each_until_deadline,
    left_out,
    on_leaders,
    verdict,
)
from mirrorfleet.kafka.offsets import epoch_ends
from mirrorfleet.kafka.together import both_of

__all__ = [
    "ActiveProducer",
    "OpenTransaction",
    "TransactionDescription",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
]


class ActiveProducer(NamedTuple):
    """A producer that a partition's leader remembers."""

    producer: ProducerIdentity
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int | None
    """Offset at which its open transaction begins; None without one."""


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator has it."""

    transactional_id: str
    state: str
    """Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, ..."""
    producer: ProducerIdentity
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """A transactional id as ListTransactions shows it."""

    transactional_id: str
    producer_id: int
    state: str


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, deadline_s: float | None = None
) -> Results[TopicPartition, list[ActiveProducer]]:
    """The producers of each partition, from its leader. Raises: as `list_offsets`.

    Followers answer DescribeProducers as well, as far as they have the log
    (Partition.activeProducerState), and it has no leader epoch. So each broker is asked in the same
    breath for something that only the leader in that epoch tells.
    """

    async def ask(
        node: int, epochs: LeaderEpochs, left_s: float
    ) -> Results[TopicPartition, list[ActiveProducer]]:
        topics: dict[str, list[i32]] = {}
        for tp in epochs:
            topics.setdefault(tp.topic, []).append(i32(tp.partition))
        request = DescribeProducersRequest(
            topics=tuple(
                TopicRequest(name=TopicName(name), partition_indexes=tuple(numbers))
                for name, numbers in topics.items()
            )
        )
        answer, led = await both_of(
            cluster.ask(request, DescribeProducersResponse, node=node, deadline_s=left_s),
            epoch_ends(cluster, node, epochs, epochs, left_s),
        )
        found = _read_producers(answer)
        return found | {tp: said for tp, said in led.items() if isinstance(said, BrokerError)}

    return await on_leaders(cluster, "DescribeProducers", partitions, ask, deadline_s)


async def describe_transactions(
    cluster: Cluster,
    transactional_ids: Sequence[str],
    *,
    deadline_s: float | None = None,
    coordinators: dict[str, int] | None = None,
) -> Results[str, TransactionDescription]:
    """Transactional ids, from their coordinators; TRANSACTIONAL_ID_NOT_FOUND for an unused one.

    `coordinators` are who they were a moment ago, and are again afterwards: a broker that is none
    any more says so, but one that was cut off from its cluster does not know.
    """
    known = {} if coordinators is None else coordinators

    async def describe_one(
        transactional_id: str, left_s: float
    ) -> TransactionDescription | BrokerError:
        kind = CoordinatorKind.TRANSACTION
        node = known.pop(transactional_id, None)
        try:
            if node is None:
                node = await find_coordinator(cluster, transactional_id, kind, left_s)
        except BrokerError as error:
            return error
        request = DescribeTransactionsRequest(
            transactional_ids=(TransactionalId(transactional_id),)
        )
        answer = await cluster.ask(
            request, DescribeTransactionsResponse, node=node, deadline_s=left_s
        )
        found = _read_transaction(answer, transactional_id)
        if not isinstance(found, BrokerError):
            known[transactional_id] = node
        return found

    async def attempt(left: list[str], left_s: float) -> Results[str, TransactionDescription]:
        return {name: await describe_one(name, left_s) for name in left}

    return await each_until_deadline(
        cluster, "DescribeTransactions", transactional_ids, attempt, deadline_s
    )


async def list_transactions(
    cluster: Cluster, *, deadline_s: float | None = None
) -> list[OpenTransaction]:
    """All transactional ids that the brokers coordinate.

    Raises: BrokerError of a broker that refuses, and as `Cluster.ask`: a part is not an answer.
    """
    await cluster.metadata(())
    found: list[OpenTransaction] = []
    for node in cluster.brokers:
        answer = await cluster.ask(
            ListTransactionsRequest(), ListTransactionsResponse, node=node, deadline_s=deadline_s
        )
        error = verdict(code_of(answer.error_code), f"{cluster.name}: ListTransactions at {node}")
        if error is not None:
            raise error
        found.extend(
            OpenTransaction(str(t.transactional_id), int(t.producer_id), t.transaction_state)
            for t in answer.transaction_states
        )
    return found


def _read_producers(
    answer: DescribeProducersResponse,
) -> Results[TopicPartition, list[ActiveProducer]]:
    found: Results[TopicPartition, list[ActiveProducer]] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            tp = TopicPartition(str(topic.name), int(p.partition_index))
            error = verdict(code_of(p.error_code), f"DescribeProducers {tp}", p.error_message)
            found[tp] = error or [
                ActiveProducer(
                    producer=ProducerIdentity(int(s.producer_id), int(s.producer_epoch)),
                    last_sequence=int(s.last_sequence),
                    last_timestamp_ms=int(s.last_timestamp),
                    transaction_start=(
                        int(s.current_txn_start_offset) if s.current_txn_start_offset >= 0 else None
                    ),
                )
                for s in p.active_producers
            ]
    return found


def _read_transaction(
    answer: DescribeTransactionsResponse, transactional_id: str
) -> TransactionDescription | BrokerError:
    for state in answer.transaction_states:
        error = verdict(code_of(state.error_code), f"transactional id {transactional_id}")
        return error or TransactionDescription(
            transactional_id=str(state.transactional_id),
            state=state.transaction_state,
            producer=ProducerIdentity(int(state.producer_id), int(state.producer_epoch)),
            timeout_ms=count_ms(state.transaction_timeout),
            partitions=tuple(
                TopicPartition(str(topic.topic), int(number))
                for topic in state.topics
                for number in topic.partitions
            ),
        )
    return left_out(f"transactional id {transactional_id}")
