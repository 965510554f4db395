"""Who leads what: a cluster's brokers, topics and partitions at one moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.metadata.v10.response import MetadataResponse, MetadataResponseTopic

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterId, TopicId
from mirrorfleet.kafka.codec import code_of


class Broker(NamedTuple):
    """A broker and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Host and port as `bootstrap` spells them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class PartitionMeta(NamedTuple):
    """A partition; `leader` is -1 when there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


class TopicMeta(NamedTuple):
    """A topic; an `error` other than NONE means that the rest says nothing."""

    name: str
    topic_id: TopicId
    error: ErrorCode
    internal: bool
    partitions: dict[int, PartitionMeta]


class Metadata(NamedTuple):
    """An answer to Metadata."""

    cluster_id: ClusterId
    controller: int
    brokers: Mapping[int, Broker]
    topics: dict[str, TopicMeta]

    @property
    def members(self) -> int:
        """How many brokers the cluster has, as far as an answer on all topics tells.

        `brokers` are only those that are up; one that restarts still has its replicas.
        """
        replicas = (p.replicas for topic in self.topics.values() for p in topic.partitions.values())
        return len(set(self.brokers).union(*replicas))


def read_metadata(answer: MetadataResponse) -> Metadata:
    """Metadata from the schema's form."""
    return Metadata(
        cluster_id=ClusterId(answer.cluster_id or ""),
        controller=int(answer.controller_id),
        brokers={int(b.node_id): Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers},
        topics={str(topic.name): _read_topic(topic) for topic in answer.topics},
    )


def _read_topic(topic: MetadataResponseTopic) -> TopicMeta:
    partitions = {
        int(p.partition_index): PartitionMeta(
            leader=int(p.leader_id),
            leader_epoch=int(p.leader_epoch),
            replicas=p.replica_nodes,
            isr=p.isr_nodes,
            offline=p.offline_replicas,
            error=code_of(p.error_code),
        )
        for p in topic.partitions
    }
    return TopicMeta(
        name=str(topic.name),
        topic_id=topic.topic_id or NO_TOPIC_ID,
        error=code_of(topic.error_code),
        internal=topic.is_internal,
        partitions=partitions,
    )
