"""Topics: created, grown, deleted; their configs are `kafka.configs`.

Every function answers per resource and retries what is retriable until its deadline. A creation
whose first answer was lost may be answered TOPIC_ALREADY_EXISTS: callers that want a topic to
exist take that as success.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, Self

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
from kio.schema.create_topics.v5.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.delete_topics.v5.response import DeleteTopicsResponse
from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of, patience
from mirrorfleet.kafka.controller import Mode, ask_controller, on_controller
from mirrorfleet.kafka.each import left_out, verdict
from mirrorfleet.kafka.metadata import Broker
from mirrorfleet.records.topics import TopicSpec

BROKER_DEFAULT: Final = -1
"""For partitions or replication factor: what the broker's own defaults say (KIP-464)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: TopicSpec) -> Self:
        """As a topic of ours is specified."""
        return cls(
            name=spec.name,
            partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            configs=spec.configs,
        )


class ClusterDescription(NamedTuple):
    """A cluster as DescribeCluster says."""

    cluster_id: ClusterId
    controller: int
    brokers: tuple[Broker, ...]


def records_of(spec: TopicSpec) -> int:
    """How many a controller makes of the creation of one (`controller.in_requests`)."""
    return 1 + spec.partitions + len(spec.configs)


async def create_topics(
    cluster: Cluster,
    topics: Sequence[NewTopic],
    *,
    mode: Mode = Mode.APPLY,
    deadline_s: float | None = None,
) -> dict[str, BrokerError | None]:
    """Create topics; per name None or why not. Raises: as `each_until_deadline`."""
    wanted = {topic.name: topic for topic in topics}

    async def attempt(names: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = _creation([wanted[name] for name in names], mode, left_s)
        answer = await ask_controller(cluster, request, CreateTopicsResponse, left_s)
        return _verdicts("create", answer.topics)

    return await on_controller(cluster, "CreateTopics", wanted, attempt, deadline_s)


async def default_configs(
    cluster: Cluster, name: str, *, deadline_s: float | None = None
) -> dict[str, str] | BrokerError:
    """The configs that a topic of this name would get; nothing is created.

    The name must be free. Raises: as `each_until_deadline`.
    """
    found: dict[str, str] = {}

    async def attempt(_: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = _creation([NewTopic(name=name)], Mode.VALIDATE_ONLY, left_s)
        answer = await ask_controller(cluster, request, CreateTopicsResponse, left_s)
        topic = next((each for each in answer.topics if each.name == name), None)
        if topic is None:
            return {name: left_out(f"defaults of {name}")}
        code = code_of(topic.error_code)
        if code is ErrorCode.NONE:
            code = error_code(int(topic.topic_config_error_code))
        found.update({c.name: c.value for c in topic.configs or () if c.value is not None})
        return {name: verdict(code, f"defaults of {name}", topic.error_message)}

    error = (await on_controller(cluster, "CreateTopics", [name], attempt, deadline_s))[name]
    return error or found


async def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    mode: Mode = Mode.APPLY,
    deadline_s: float | None = None,
) -> dict[str, BrokerError | None]:
    """Grow topics to so many partitions in all; per name None or why not."""

    async def attempt(names: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = CreatePartitionsRequest(
            topics=tuple(
                CreatePartitionsTopic(
                    name=TopicName(name), count=i32(counts[name]), assignments=None
                )
                for name in names
            ),
            timeout=patience(left_s),
            validate_only=mode.value,
        )
        answer = await ask_controller(cluster, request, CreatePartitionsResponse, left_s)
        return _verdicts("grow", answer.results)

    found = await on_controller(cluster, "CreatePartitions", counts, attempt, deadline_s)
    return found if mode is Mode.VALIDATE_ONLY else await _without_done(cluster, counts, found)


async def _without_done(
    cluster: Cluster, counts: Mapping[str, int], found: dict[str, BrokerError | None]
) -> dict[str, BrokerError | None]:
    """A growth whose answer was lost is refused when it is asked for again, though it is done."""
    refused = [
        name
        for name, error in found.items()
        if error is not None and error.code is ErrorCode.INVALID_PARTITIONS
    ]
    topics = (await cluster.metadata(refused)).topics if refused else {}
    done = [n for n in refused if n in topics and len(topics[n].partitions) == counts[n]]
    return {**found, **dict.fromkeys(done)}


async def delete_topics(
    cluster: Cluster, names: Sequence[str], *, deadline_s: float | None = None
) -> dict[str, BrokerError | None]:
    """Delete topics; per name None or why not."""

    async def attempt(left: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = DeleteTopicsRequest(
            topic_names=tuple(TopicName(name) for name in left),
            timeout=patience(left_s),
        )
        answer = await ask_controller(cluster, request, DeleteTopicsResponse, left_s)
        for name in left:
            cluster.forget_leaders(name)
        final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
        return _verdicts("delete", answer.responses, final)

    return await on_controller(cluster, "DeleteTopics", names, attempt, deadline_s)


async def describe_cluster(
    cluster: Cluster, *, deadline_s: float | None = None
) -> ClusterDescription:
    """Id, controller and brokers now. Raises: BrokerError, and as `Cluster.ask`."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    answer = await cluster.ask(request, DescribeClusterResponse, deadline_s=deadline_s)
    error = verdict(code_of(answer.error_code), "DescribeCluster", answer.error_message)
    if error is not None:
        raise error
    return ClusterDescription(
        cluster_id=ClusterId(answer.cluster_id),
        controller=int(answer.controller_id),
        brokers=tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers),
    )


class _Answer(Protocol):
    """What the controller says of one topic."""

    @property
    def name(self) -> TopicName: ...
    @property
    def error_code(self) -> SchemaErrorCode: ...
    @property
    def error_message(self) -> str | None: ...


def _verdicts(
    verb: str, answers: Iterable[_Answer], final: Container[ErrorCode] = ()
) -> dict[str, BrokerError | None]:
    return {
        str(t.name): verdict(
            code_of(t.error_code), f"{verb} {t.name}", t.error_message, final=final
        )
        for t in answers
    }


def _creation(topics: Sequence[NewTopic], mode: Mode, left_s: float) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(_creatable(topic) for topic in topics),
        timeout=patience(left_s),
        validate_only=mode.value,
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.partitions),
        replication_factor=i16(topic.replication_factor),
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ),
    )
