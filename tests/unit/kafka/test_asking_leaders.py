"""Who leads what is asked for when it is not known, and an old answer does not count."""

from __future__ import annotations

from typing import TypeVar, cast
from uuid import UUID

from kio.schema.errors import ErrorCode as Code
from kio.schema.metadata.v10.request import MetadataRequest
from kio.schema.metadata.v10.response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from kio.static.protocol import Entity

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request, milliseconds

R = TypeVar("R", bound=Entity)

ORDERS = TopicPartition("orders", 0)


class West(Cluster):
    """A cluster of topics with one partition, each led by broker 1; `asked` is for what."""

    def __init__(self) -> None:
        super().__init__(ClusterSettings(alias=ClusterAlias("west"), bootstrap=("one:9092",)))
        self.asked: list[list[str]] = []
        self.epoch = 6

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
    ) -> R:
        del expect, node, deadline_s
        names = [str(topic.name) for topic in cast("MetadataRequest", request).topics or ()]
        self.asked.append(names)
        answer = MetadataResponse(
            throttle_time=milliseconds(0),
            brokers=(),
            cluster_id="west-id",
            controller_id=BrokerId(1),
            topics=tuple(self._topic(name) for name in names),
        )
        return cast("R", answer)

    def _topic(self, name: str) -> MetadataResponseTopic:
        partition = MetadataResponsePartition(
            error_code=Code.none,
            partition_index=i32(0),
            leader_id=BrokerId(1),
            leader_epoch=i32(self.epoch),
            replica_nodes=(),
            isr_nodes=(),
            offline_replicas=(),
        )
        return MetadataResponseTopic(
            error_code=Code.none,
            name=TopicName(name),
            topic_id=UUID(int=7),
            is_internal=False,
            partitions=(partition,),
        )


async def test_a_broker_that_lags_behind_is_not_believed_when_it_is_asked_again() -> None:
    cluster = West()
    assert await cluster.leader(ORDERS) == (1, 6)
    cluster.forget_leaders("orders")
    cluster.epoch = 5

    first, then = await cluster.leader(ORDERS), await cluster.leader(ORDERS)

    assert (first, then) == ((1, 6), (1, 6))
    assert (await cluster.topic("orders", refresh=True)).partitions[0].leader_epoch == 6
    assert cluster.asked == [["orders"]] * 3


async def test_a_later_leader_is_believed_at_once() -> None:
    cluster = West()
    await cluster.leader(ORDERS)
    cluster.forget_leaders("orders")
    cluster.epoch = 7

    assert await cluster.leader(ORDERS) == (1, 7)
