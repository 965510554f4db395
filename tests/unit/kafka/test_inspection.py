"""Who has what open in a partition is its leader's to say: followers answer the same request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import TypeVar, cast
from uuid import UUID

import pytest
from kio.schema.describe_producers.v0 import response as producers
from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.errors import ErrorCode as Code
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.metadata.v10 import response as metadata
from kio.schema.metadata.v10.request import MetadataRequest
from kio.schema.offset_for_leader_epoch.v4 import response as ends
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import i32, i64
from kio.static.protocol import Entity

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import ClusterAlias, ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request, milliseconds
from mirrorfleet.kafka.inspection import describe_producers, describe_transactions

R = TypeVar("R", bound=Entity)

ORDERS = TopicPartition("orders", 0)
OPEN = ProducerIdentity(7, 3)


class West(Cluster):
    """Broker 2 leads in epoch 7 and has a transaction open; broker 1 did in 6, and has it not yet.

    Its first metadata is of before.
    """

    def __init__(self) -> None:
        super().__init__(ClusterSettings(alias=ClusterAlias("west"), bootstrap=("one:9092",)))
        self.known = iter([1, 2])

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
        accept: Callable[[R], None] | None = None,
    ) -> R:
        del expect, deadline_s, accept
        if isinstance(request, MetadataRequest):
            return cast("R", _led_by(next(self.known)))
        if isinstance(request, DescribeProducersRequest):
            return cast("R", _producers(OPEN if node == 2 else None))
        return cast("R", _ends(Code.none if node == 2 else Code.not_leader_or_follower))


def _led_by(node: int) -> metadata.MetadataResponse:
    partition = metadata.MetadataResponsePartition(
        error_code=Code.none,
        partition_index=i32(0),
        leader_id=BrokerId(node),
        leader_epoch=i32(5 + node),
        replica_nodes=(),
        isr_nodes=(),
        offline_replicas=(),
    )
    topic = metadata.MetadataResponseTopic(
        error_code=Code.none,
        name=TopicName("orders"),
        topic_id=UUID(int=7),
        is_internal=False,
        partitions=(partition,),
    )
    return metadata.MetadataResponse(
        throttle_time=milliseconds(0),
        brokers=(),
        cluster_id="west-id",
        controller_id=BrokerId(1),
        topics=(topic,),
    )


def _producers(open_now: ProducerIdentity | None) -> producers.DescribeProducersResponse:
    found = open_now and producers.ProducerState(
        producer_id=ProducerId(open_now.producer_id),
        producer_epoch=i32(open_now.epoch),
        coordinator_epoch=i32(0),
        current_txn_start_offset=i64(90),
    )
    partition = producers.PartitionResponse(
        partition_index=i32(0),
        error_code=Code.none,
        active_producers=() if found is None else (found,),
    )
    topic = producers.TopicResponse(name=TopicName("orders"), partitions=(partition,))
    return producers.DescribeProducersResponse(throttle_time=milliseconds(0), topics=(topic,))


def _ends(code: Code) -> ends.OffsetForLeaderEpochResponse:
    partition = ends.EpochEndOffset(error_code=code, partition=i32(0))
    topic = ends.OffsetForLeaderTopicResult(topic=TopicName("orders"), partitions=(partition,))
    return ends.OffsetForLeaderEpochResponse(throttle_time=milliseconds(0), topics=(topic,))


async def test_a_broker_that_leads_no_more_is_not_believed_that_nothing_is_open() -> None:
    found = (await describe_producers(West(), [ORDERS], deadline_s=5.0))[ORDERS]

    assert isinstance(found, list)
    assert [(one.producer, one.transaction_start) for one in found] == [(OPEN, 90)]


class Coordinated(Cluster):
    """Broker 2 coordinates all ids; others say so."""

    def __init__(self) -> None:
        super().__init__(ClusterSettings(alias=ClusterAlias("west"), bootstrap=("one:9092",)))
        self.asked: list[int | None] = []

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
        accept: Callable[[R], None] | None = None,
    ) -> R:
        del expect, deadline_s, accept
        self.asked.append(node)
        if isinstance(request, FindCoordinatorRequest):
            return cast("R", SimpleNamespace(error_code=Code.none, node_id=2))
        if node == 3:
            raise ConnectionLostError("gone")
        state = SimpleNamespace(
            error_code=Code.none if node == 2 else Code.not_coordinator,
            transactional_id="t",
            transaction_state="Empty",
            producer_id=7,
            producer_epoch=1,
            transaction_timeout=timedelta(seconds=15),
            topics=(),
        )
        return cast("R", SimpleNamespace(transaction_states=(state,)))


@pytest.mark.parametrize(
    ("known", "asked"),
    [(None, [None, 2]), ({}, [None, 2]), ({"t": 2}, [2]), ({"t": 1}, [1, None, 2])],
)
async def test_a_coordinator_that_is_known_is_asked_and_another_one_found_if_it_is_none(
    known: dict[str, int] | None, asked: list[int | None]
) -> None:
    west = Coordinated()
    found = await describe_transactions(west, ["t"], deadline_s=5.0, coordinators=known)

    assert not isinstance(found["t"], BrokerError)
    assert west.asked == asked
    assert known in (None, {"t": 2})


async def test_one_that_does_not_answer_is_asked_no_more() -> None:
    west, known = Coordinated(), {"t": 3}
    await describe_transactions(west, ["t"], deadline_s=5.0, coordinators=known)

    assert (west.asked, known) == ([3, None, 2], {"t": 2})
