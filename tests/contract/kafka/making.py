"""Topics, batches and lanes in one line, for the client's contract tests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import uuid4

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchLane, FetchPoint
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, list_offsets
from mirrorfleet.kafka.producer import ProduceEntry
from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.records import NewRecord, build_batch, records_of
from mirrorfleet.wire.rewrite import stamp
from tests.faultkit.waiting import until

NOBODY = ProducerIdentity(-1, -1)


async def new_topic(
    cluster: Cluster, partitions: int = 1, configs: dict[str, str] | None = None
) -> TopicMeta:
    """A topic of its own, once its leaders are known."""
    name = f"client-{uuid4().hex[:8]}"
    made = NewTopic(name=name, partitions=partitions, configs=configs or {})
    assert await create_topics(cluster, [made]) == {name: None}

    async def led() -> TopicMeta | None:
        topic = await cluster.topic(name, refresh=True)
        return topic if all(p.leader >= 0 for p in topic.partitions.values()) else None

    found = await until(led, deadline_s=20, what=f"leaders of {name}", ignoring=(BrokerError,))
    assert found is not None
    # metadata is there a moment before the leaders serve; this waits until they do
    all_partitions = [TopicPartition(name, number) for number in range(partitions)]
    starts = await list_offsets(cluster, dict.fromkeys(all_partitions, EARLIEST))
    assert {start.offset for start in starts.values() if isinstance(start, ListedOffset)} == {0}
    return found


def entry(
    topic: TopicMeta,
    partition: int,
    *records: tuple[bytes | None, bytes | None],
    producer: ProducerIdentity = NOBODY,
    sequence: int = -1,
) -> ProduceEntry:
    """One batch; transactional when it has a producer."""
    now_ms = time.time_ns() // 1_000_000  # an old time would have every marker roll a segment
    batch = build_batch([NewRecord(now_ms, key, value) for key, value in records])
    header = stamp(batch, producer, sequence, transactional=producer is not NOBODY)
    return ProduceEntry(topic.name, topic.topic_id, partition, header, batch.payload)


def point(topic: TopicMeta, partition: int, offset: int, **more: int) -> FetchPoint:
    """Where to fetch, believing in the leader epoch of the metadata."""
    epoch = more.pop("leader_epoch", topic.partitions[partition].leader_epoch)
    return FetchPoint(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition,
        offset=offset,
        leader_epoch=epoch,
        **more,
    )


async def lane_to(cluster: Cluster, topic: TopicMeta, partition: int = 0) -> FetchLane:
    """A lane to the leader."""
    leader = await cluster.leader(TopicPartition(topic.name, partition))
    return FetchLane(await cluster.connect(leader.node_id, purpose="test"))


async def fetch_one(lane: FetchLane, wanted: FetchPoint) -> tuple[Fetched, FetchedPartition]:
    """The answer for the one partition that the lane wants."""
    lane.want(wanted)
    fetched = await lane.fetch(max_bytes=64 << 20, max_wait_ms=5000)
    (found,) = fetched.partitions
    return fetched, found


def values(fetched: Fetched, found: FetchedPartition) -> list[bytes | None]:
    """Values of all records of user batches, aborted ones too."""
    assert found.error is ErrorCode.NONE
    return [
        record.value
        for header in walk(fetched.buffer, found.start, found.end)
        if not header.is_control
        for record in records_of(fetched.buffer, header)
    ]


def base_offsets(fetched: Fetched, found: FetchedPartition) -> Sequence[int]:
    """Where each batch begins, control batches too."""
    return [header.base_offset for header in walk(fetched.buffer, found.start, found.end)]
