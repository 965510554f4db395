"""Who plays which part in a region now, and giving the parts to others. Clients of its own each.

roles(region).leader("orders", 0)   .coordinator_of("mirrorfleet.f.east.0")   .controller()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import f64, i8, i32

from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.kafka.admin import delete_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta

T = TypeVar("T")

ASK_S: Final = 40.0
"""Deadline of one question, while brokers may be away; one may be sent on to a frozen one."""


class Roles:
    """Questions to one region."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    def _ask(self, question: Callable[[Cluster], Awaitable[T]]) -> T:
        async def ask() -> T:
            async with asyncio.timeout(ASK_S), Cluster(self._settings) as cluster:
                return await question(cluster)

        return asyncio.run(ask())

    def partitions(self, topic: str) -> dict[int, PartitionMeta]:
        """What metadata says of each partition."""

        return self._topic(topic).partitions

    def topic_id(self, topic: str) -> TopicId:
        """The id of a topic."""

        return self._topic(topic).topic_id

    def _topic(self, name: str) -> TopicMeta:
        """A broker that was away may be asked before it has heard of a new topic."""

        async def look(cluster: Cluster) -> TopicMeta:
            return await cluster.topic(name, refresh=True)

        return wait_until(
            lambda: self._ask(look), deadline_s=ASK_S, what=name, ignoring=(BrokerError,)
        )

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition; -1 when none does."""
        return self.partitions(topic)[partition].leader

    def coordinator_of(self, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> int:
        """The node that coordinates a transactional id, or a group."""
        return self._ask(lambda cluster: find_coordinator(cluster, key, kind, ASK_S))

    def controller(self) -> int:
        """The active controller; metadata names any broker instead."""
        log = TopicData(
            topic_name=TopicName("__cluster_metadata"),
            partitions=(PartitionData(partition_index=i32(0)),),
        )

        async def look(cluster: Cluster) -> int:
            request = DescribeQuorumRequest(topics=(log,))
            answer = await cluster.ask(request, DescribeQuorumResponse, deadline_s=ASK_S)
            return int(answer.topics[0].partitions[0].leader_id)

        return self._ask(look)

    def wait_in_sync(self, topics: Sequence[str], copies: int, deadline_s: float = 90.0) -> None:
        """Wait until every partition of the topics has a leader and so many replicas in sync."""

        def look() -> bool:
            metas = [meta for topic in topics for meta in self.partitions(topic).values()]
            return all(meta.leader >= 0 and len(meta.isr) >= copies for meta in metas)

        wait_until(
            look,
            deadline_s=deadline_s,
            what=f"{self._settings.alias}: {copies} replicas in sync of {list(topics)}",
            ignoring=(MirrorfleetError, TimeoutError),
        )

    def move_leaders(self, topics: Sequence[str]) -> int:
        """Give every partition's leadership to its next replica; how many there are."""
        return self._rearrange(topics, _rotated)

    def lead(self, topic: str, node: int) -> None:
        """Have one broker lead every partition of a topic that it has a replica of."""
        self._rearrange([topic], lambda meta: _with_first(meta, node))

    def _rearrange(
        self, topics: Sequence[str], order: Callable[[PartitionMeta], Sequence[int]]
    ) -> int:
        """Put the replicas of every partition in an order, and have the first ones lead."""

        async def move(cluster: Cluster) -> int:
            found = {t: (await cluster.topic(t, refresh=True)).partitions for t in topics}
            request = AlterPartitionReassignmentsRequest(
                topics=tuple(
                    ReassignableTopic(
                        name=TopicName(topic),
                        partitions=tuple(
                            ReassignablePartition(
                                partition_index=i32(n), replicas=tuple(map(BrokerId, order(meta)))
                            )
                            for n, meta in partitions.items()
                        ),
                    )
                    for topic, partitions in found.items()
                )
            )
            await cluster.ask(request, AlterPartitionReassignmentsResponse, deadline_s=ASK_S)
            elect = ElectLeadersRequest(election_type=i8(0), topic_partitions=None)
            await cluster.ask(elect, ElectLeadersResponse, deadline_s=ASK_S)
            return sum(map(len, found.values()))

        return self._ask(move)

    def delete(self, topics: Sequence[str]) -> None:
        """Delete topics: a minute's load at full speed is gigabytes. Raises: MirrorfleetError."""
        self._ask(lambda cluster: delete_topics(cluster, topics))

    def set_quota(self, client_id: str, **bytes_per_s: float | None) -> None:
        """Set `producer_byte_rate`, `consumer_byte_rate` of a client id; None removes one."""
        ops = tuple(
            OpData(key=key, value=f64(value or 0.0), remove=value is None)
            for key, value in bytes_per_s.items()
        )
        entity = (EntityData(entity_type="client-id", entity_name=client_id),)
        request = AlterClientQuotasRequest(
            entries=(EntryData(entity=entity, ops=ops),), validate_only=False
        )
        self._ask(lambda cluster: cluster.ask(request, AlterClientQuotasResponse, deadline_s=ASK_S))


def _rotated(meta: PartitionMeta) -> Sequence[int]:
    """The replicas with the one after the leader first."""
    replicas = list(meta.replicas)
    at = replicas.index(meta.leader) + 1 if meta.leader in replicas else 0
    return [*replicas[at:], *replicas[:at]]


def _with_first(meta: PartitionMeta, node: int) -> Sequence[int]:
    """The replicas with `node` first, if it is one."""
    return sorted(meta.replicas, key=lambda replica: replica != node)
