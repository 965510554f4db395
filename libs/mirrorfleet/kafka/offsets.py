"""Offsets and lineage as the leaders say: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

Each is sent to the partitions' leaders with the leader epoch that we believe in, so that a stale
leader refuses instead of answering (KIP-320). Retriable refusals are asked again, after a look at
the metadata, until the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.delete_records.v2.response import DeleteRecordsResponse
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of, patience
from mirrorfleet.kafka.each import LeaderEpochs, Results, on_leaders, verdict
from mirrorfleet.kafka.together import both_of
from mirrorfleet.wire.k01_fetch import Isolation

_CONSUMER: Final = BrokerId(-1)
_ALL_REPLICAS_S: Final = 5.0
"""DeleteRecords waits for every living replica, also for one that lags or has lost its disk
(Partition.lowWatermarkIfLeader), and its connection answers nobody meanwhile."""


class OffsetSpec(NamedTuple):
    """Which offset is wanted: the first at or after a time, or one of the constants below."""

    timestamp: int


EARLIEST: Final = OffsetSpec(-2)
LATEST: Final = OffsetSpec(-1)
"""The high watermark; the last stable offset with read_committed."""


class ListedOffset(NamedTuple):
    """`offset` and `timestamp` are -1 when no record fits (a late timestamp)."""

    offset: int
    timestamp: int
    leader_epoch: int


ListedOffsets = Results[TopicPartition, ListedOffset]


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and where it ends; (-1, -1): unknown."""

    leader_epoch: int
    end_offset: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, OffsetSpec],
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    deadline_s: float | None = None,
) -> ListedOffsets:
    """An offset per partition, from its leader.

    A new leader that does not know its high watermark yet says OFFSET_NOT_AVAILABLE and is asked
    again. Raises: DeadlineError when no answer came; AuthenticationError, UnsupportedError.
    """

    async def ask(node: int, epochs: LeaderEpochs, left_s: float) -> ListedOffsets:
        request = _list_request(wanted, epochs, isolation)
        answer = await cluster.ask(request, ListOffsetsResponse, node=node, deadline_s=left_s)
        found: ListedOffsets = {}
        for topic in answer.topics:
            for p in topic.partitions:
                tp = TopicPartition(str(topic.name), int(p.partition_index))
                listed = ListedOffset(int(p.offset), int(p.timestamp), int(p.leader_epoch))
                found[tp] = verdict(code_of(p.error_code), f"ListOffsets {tp}") or listed
        return found

    return await on_leaders(cluster, "ListOffsets", wanted, ask, deadline_s)


def told(listed: ListedOffsets) -> dict[TopicPartition, int]:
    """The offsets of those that answered."""
    return {at: one.offset for at, one in listed.items() if not isinstance(one, BrokerError)}


async def log_bounds(
    cluster: Cluster, at: TopicPartition, *, isolation: Isolation = Isolation.READ_COMMITTED
) -> tuple[int, int]:
    """Where a partition's log begins, and where it ends for readers of that isolation.

    Raises: BrokerError of the partition; as `list_offsets`.
    """
    starts, ends = await both_of(  # one request cannot ask twice about a partition
        list_offsets(cluster, {at: EARLIEST}, isolation=isolation),
        list_offsets(cluster, {at: LATEST}, isolation=isolation),
    )
    start, end = starts[at], ends[at]
    if isinstance(start, BrokerError):
        raise start
    if isinstance(end, BrokerError):
        raise end
    return start.offset, max(start.offset, end.offset)  # records may be deleted between the two


async def offset_for_leader_epoch(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, deadline_s: float | None = None
) -> Results[TopicPartition, EpochEnd]:
    """Where a leader epoch ends in each partition's log now; raises as `list_offsets`."""

    async def ask(
        node: int, epochs: LeaderEpochs, left_s: float
    ) -> Results[TopicPartition, EpochEnd]:
        return await epoch_ends(cluster, node, wanted, epochs, left_s)

    return await on_leaders(cluster, "OffsetForLeaderEpoch", wanted, ask, deadline_s)


async def epoch_ends(
    cluster: Cluster,
    node: int,
    wanted: Mapping[TopicPartition, int],
    led_in: LeaderEpochs,
    deadline_s: float,
) -> Results[TopicPartition, EpochEnd]:
    """As `offset_for_leader_epoch`, of one broker: it refuses what it does not lead in that epoch.

    Raises: as `Cluster.ask`.
    """
    request = _epoch_request(wanted, led_in)
    answer = await cluster.ask(
        request, OffsetForLeaderEpochResponse, node=node, deadline_s=deadline_s
    )
    found: Results[TopicPartition, EpochEnd] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            tp = TopicPartition(str(topic.topic), int(p.partition))
            end = EpochEnd(int(p.leader_epoch), int(p.end_offset))
            found[tp] = verdict(code_of(p.error_code), f"OffsetForLeaderEpoch {tp}") or end
    return found


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, deadline_s: float | None = None
) -> Results[TopicPartition, int]:
    """Delete the records before an offset in each partition; gives the new log start.

    POLICY_VIOLATION without cleanup.policy `delete` (ReplicaManager.deleteRecordsOnLocalLog);
    raises as `list_offsets`.
    """

    async def ask(node: int, epochs: LeaderEpochs, left_s: float) -> Results[TopicPartition, int]:
        request = _delete_request(before, epochs, left_s)
        answer = await cluster.ask(request, DeleteRecordsResponse, node=node, deadline_s=left_s)
        found: Results[TopicPartition, int] = {}
        for topic in answer.topics:
            for p in topic.partitions:
                tp = TopicPartition(str(topic.name), int(p.partition_index))
                start = int(p.low_watermark)
                found[tp] = verdict(code_of(p.error_code), f"DeleteRecords {tp}") or start
        return found

    return await on_leaders(cluster, "DeleteRecords", before, ask, deadline_s)


def _list_request(
    wanted: Mapping[TopicPartition, OffsetSpec], epochs: LeaderEpochs, isolation: Isolation
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for tp, epoch in epochs.items():
        topics.setdefault(tp.topic, []).append(
            ListOffsetsPartition(
                partition_index=i32(tp.partition),
                current_leader_epoch=i32(epoch),
                timestamp=i64(wanted[tp].timestamp),
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=i8(isolation),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _epoch_request(
    wanted: Mapping[TopicPartition, int], epochs: LeaderEpochs
) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for tp, epoch in epochs.items():
        topics.setdefault(tp.topic, []).append(
            OffsetForLeaderPartition(
                partition=i32(tp.partition),
                current_leader_epoch=i32(epoch),
                leader_epoch=i32(wanted[tp]),
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=tuple(
            OffsetForLeaderTopic(topic=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _delete_request(
    before: Mapping[TopicPartition, int], epochs: LeaderEpochs, left_s: float
) -> DeleteRecordsRequest:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for tp in epochs:
        topics.setdefault(tp.topic, []).append(
            DeleteRecordsPartition(partition_index=i32(tp.partition), offset=i64(before[tp]))
        )
    return DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        timeout=patience(min(left_s, _ALL_REPLICAS_S)),
    )
