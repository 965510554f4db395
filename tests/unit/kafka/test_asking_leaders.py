"""Who leads what is asked for when it is not known, and an old answer does not count."""

from __future__ import annotations

from collections.abc import Callable
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
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request, milliseconds
from mirrorfleet.kafka.each import LeaderEpochs, Results, on_leaders

R = TypeVar("R", bound=Entity)

ORDERS = TopicPartition("orders", 0)


class West(Cluster):
    """A cluster of topics led by broker 1; `asked` is for what, `given_s` within what time."""

    def __init__(self) -> None:
        super().__init__(ClusterSettings(alias=ClusterAlias("west"), bootstrap=("one:9092",)))
        self.asked: list[list[str]] = []
        self.given_s: list[float | None] = []
        self.epoch = 6
        self.partitions = 1
        self.denied = "secret"

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
        accept: Callable[[R], None] | None = None,
    ) -> R:
        del expect, node, accept
        names = [str(topic.name) for topic in cast("MetadataRequest", request).topics or ()]
        self.asked.append(names)
        self.given_s.append(deadline_s)
        answer = MetadataResponse(
            throttle_time=milliseconds(0),
            brokers=(),
            cluster_id="west-id",
            controller_id=BrokerId(1),
            topics=tuple(self._topic(name) for name in names),
        )
        return cast("R", answer)

    def _topic(self, name: str) -> MetadataResponseTopic:
        is_denied = name == self.denied
        return MetadataResponseTopic(
            error_code=Code.topic_authorization_failed if is_denied else Code.none,
            name=TopicName(name),
            topic_id=UUID(int=7),
            is_internal=False,
            partitions=() if is_denied else tuple(map(self._partition, range(self.partitions))),
        )

    def _partition(self, number: int) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            error_code=Code.none,
            partition_index=i32(number),
            leader_id=BrokerId(1),
            leader_epoch=i32(self.epoch),
            replica_nodes=(),
            isr_nodes=(),
            offline_replicas=(),
        )


async def answered(
    cluster: Cluster, partitions: list[TopicPartition], deadline_s: float = 9.0
) -> Results[TopicPartition, int]:
    """The leader epoch that each partition's leader was asked with."""

    async def ask(node: int, epochs: LeaderEpochs, left_s: float) -> Results[TopicPartition, int]:
        assert (node, left_s <= deadline_s) == (1, True)
        return dict(epochs)

    return await on_leaders(cluster, "ends", partitions, ask, deadline_s)


def refusal(found: object) -> tuple[ErrorCode, str] | None:
    return (found.code, found.where) if isinstance(found, BrokerError) else None


async def test_the_leaders_of_many_topics_are_one_request_within_the_deadline() -> None:
    cluster = West()
    partitions = [TopicPartition(f"t{number}", 0) for number in range(200)]

    assert await answered(cluster, partitions) == dict.fromkeys(partitions, 6)
    assert cluster.asked == [sorted(tp.topic for tp in partitions)]
    (given_s,) = cluster.given_s
    assert given_s is not None
    assert 8.0 < given_s <= 9.0

    cluster.forget_leaders("t7")
    cluster.forget_leaders("t5")
    assert await answered(cluster, partitions) == dict.fromkeys(partitions, 6)
    assert cluster.asked[1:] == [["t5", "t7"]]


async def test_a_look_at_the_metadata_has_the_time_that_an_answer_takes() -> None:
    """Else the last one before a deadline ends a connection that is well."""
    cluster = West()

    await answered(cluster, [ORDERS], 0.01)

    assert cluster.given_s == [1.0]


async def test_a_topic_that_is_refused_is_an_error_of_its_own_partitions_only() -> None:
    cluster = West()
    secrets = [TopicPartition("secret", 0), TopicPartition("secret", 1)]

    found = await answered(cluster, [secrets[0], ORDERS, secrets[1]])

    assert found[ORDERS] == 6
    why = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "west: topic secret")
    assert [refusal(found[tp]) for tp in secrets] == [why, why]
    assert cluster.asked == [["orders", "secret"]]


async def test_partitions_that_a_known_topic_lacked_are_asked_for_at_once() -> None:
    cluster = West()
    await cluster.leader(ORDERS)
    cluster.partitions = 3
    grown = [TopicPartition("orders", number) for number in range(4)]

    found = await cluster.leaders(grown)

    assert [found[tp] for tp in grown[:3]] == [(1, 6)] * 3
    why = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "west: orders-3")
    assert refusal(found[grown[3]]) == why
    assert cluster.asked == [["orders"]] * 2


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
