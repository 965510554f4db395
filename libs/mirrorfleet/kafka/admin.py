"""Topics and their configs: created, grown, deleted, described, altered.

Every function answers per resource and retries what is retriable until its deadline. A creation
whose first answer was lost may be answered TOPIC_ALREADY_EXISTS: callers that want a topic to
exist take that as success.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeVar

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
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse, DescribeConfigsResult
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32
from kio.static.protocol import Entity

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request, code_of, milliseconds
from mirrorfleet.kafka.each import Results, each_until_deadline, verdict
from mirrorfleet.kafka.metadata import Broker

R = TypeVar("R", bound=Entity)
K = TypeVar("K")

BROKER_DEFAULT: Final = -1
"""For partitions or replication factor: what the broker's own defaults say (KIP-464)."""


class Mode(Enum):
    """Whether a change is made or only checked."""

    APPLY = False
    VALIDATE_ONLY = True


class ResourceType(IntEnum):
    """What a config belongs to, as the protocol numbers it."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a config's value comes from (DescribeConfigs)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigValue(NamedTuple):
    """One config entry; a sensitive one has no value."""

    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class AlterOp(IntEnum):
    """What to do with one config entry (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """A change of one config entry; DELETE has no value."""

    name: str
    op: AlterOp
    value: str | None = None


class ClusterDescription(NamedTuple):
    """A cluster as DescribeCluster says."""

    cluster_id: ClusterId
    controller: int
    brokers: tuple[Broker, ...]


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
        request = CreateTopicsRequest(
            topics=tuple(_creatable(wanted[name]) for name in names),
            timeout=milliseconds(int(left_s * 1000)),
            validate_only=mode.value,
        )
        answer = await _ask_controller(cluster, request, CreateTopicsResponse, left_s)
        return {
            str(t.name): verdict(code_of(t.error_code), f"create {t.name}", t.error_message)
            for t in answer.topics
        }

    return await _on_controller(cluster, "CreateTopics", wanted, attempt, deadline_s)


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
            timeout=milliseconds(int(left_s * 1000)),
            validate_only=mode.value,
        )
        answer = await _ask_controller(cluster, request, CreatePartitionsResponse, left_s)
        return {
            str(t.name): verdict(code_of(t.error_code), f"grow {t.name}", t.error_message)
            for t in answer.results
        }

    return await _on_controller(cluster, "CreatePartitions", counts, attempt, deadline_s)


async def delete_topics(
    cluster: Cluster, names: Sequence[str], *, deadline_s: float | None = None
) -> dict[str, BrokerError | None]:
    """Delete topics; per name None or why not."""

    async def attempt(left: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = DeleteTopicsRequest(
            topic_names=tuple(TopicName(name) for name in left),
            timeout=milliseconds(int(left_s * 1000)),
        )
        answer = await _ask_controller(cluster, request, DeleteTopicsResponse, left_s)
        for name in left:
            cluster.forget_leaders(name)
        return {
            str(t.name): _deleted(code_of(t.error_code), str(t.name), t.error_message)
            for t in answer.responses
        }

    return await _on_controller(cluster, "DeleteTopics", names, attempt, deadline_s)


async def describe_configs(
    cluster: Cluster,
    topics: Sequence[str],
    *,
    keys: Sequence[str] | None = None,
    deadline_s: float | None = None,
) -> Results[str, dict[str, ConfigValue]]:
    """Config entries of topics, defaults included: all, or those of `keys` that the broker knows.

    An unknown topic is an error, not retried.
    """

    async def attempt(
        names: list[str], left_s: float
    ) -> dict[str, dict[str, ConfigValue] | BrokerError]:
        request = _describe(ResourceType.TOPIC, names, keys)
        answer = await cluster.ask(request, DescribeConfigsResponse, deadline_s=left_s)
        return {result.resource_name: _read_configs(result) for result in answer.results}

    return await each_until_deadline(cluster, "DescribeConfigs", topics, attempt, deadline_s)


async def describe_broker_config(
    cluster: Cluster, node_id: int, *, deadline_s: float | None = None
) -> dict[str, ConfigValue]:
    """All config entries of one broker, which must answer itself.

    Raises: BrokerError (not allowed), and as `each_until_deadline`.
    """

    async def attempt(
        names: list[str], left_s: float
    ) -> dict[str, dict[str, ConfigValue] | BrokerError]:
        request = _describe(ResourceType.BROKER, names)
        answer = await cluster.ask(
            request, DescribeConfigsResponse, node=node_id, deadline_s=left_s
        )
        return {result.resource_name: _read_configs(result) for result in answer.results}

    name = str(node_id)
    results = await each_until_deadline(cluster, "DescribeConfigs", (name,), attempt, deadline_s)
    found = results[name]
    if isinstance(found, BrokerError):
        raise found
    return found


async def incremental_alter_configs(
    cluster: Cluster,
    changes: Mapping[str, Sequence[ConfigChange]],
    *,
    mode: Mode = Mode.APPLY,
    deadline_s: float | None = None,
) -> dict[str, BrokerError | None]:
    """Change config entries of topics, others untouched; per topic None or why not."""

    async def attempt(names: list[str], left_s: float) -> dict[str, BrokerError | None]:
        request = IncrementalAlterConfigsRequest(
            resources=tuple(_alterable(name, changes[name]) for name in names),
            validate_only=mode.value,
        )
        answer = await _ask_controller(cluster, request, IncrementalAlterConfigsResponse, left_s)
        return {
            r.resource_name: verdict(
                code_of(r.error_code), f"configs of {r.resource_name}", r.error_message
            )
            for r in answer.responses
        }

    return await _on_controller(cluster, "IncrementalAlterConfigs", changes, attempt, deadline_s)


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


async def _ask_controller(cluster: Cluster, request: Request, expect: type[R], left_s: float) -> R:
    """Ask the controller (before KRaft only it answers; in KRaft any broker forwards)."""
    node = cluster.controller if cluster.controller in cluster.brokers else None
    try:
        return await cluster.ask(request, expect, node=node, deadline_s=left_s)
    except ConnectionLostError:
        await cluster.metadata(())
        raise


async def _on_controller(
    cluster: Cluster,
    what: str,
    names: Iterable[str],
    attempt: Callable[[list[str], float], Awaitable[dict[str, BrokerError | None]]],
    deadline_s: float | None,
) -> dict[str, BrokerError | None]:
    """`each_until_deadline` for changes; NOT_CONTROLLER has the controller looked up again."""

    async def routed(left: list[str], left_s: float) -> dict[str, BrokerError | None]:
        answers = await attempt(left, left_s)
        if any(e is not None and e.code is ErrorCode.NOT_CONTROLLER for e in answers.values()):
            await cluster.metadata(())
        return answers

    return await each_until_deadline(cluster, what, names, routed, deadline_s)


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


def _deleted(code: ErrorCode, name: str, message: str | None) -> BrokerError | None:
    """An unknown topic is not worth waiting for here, whatever Kafka says of other requests."""
    error = verdict(code, f"delete {name}", message)
    if error is not None and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        error.retriable = False
    return error


def _describe(
    kind: ResourceType, names: Sequence[str], keys: Sequence[str] | None = None
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=i8(kind),
                resource_name=name,
                configuration_keys=None if keys is None else tuple(keys),
            )
            for name in names
        )
    )


def _read_configs(result: DescribeConfigsResult) -> dict[str, ConfigValue] | BrokerError:
    where = f"configs of {result.resource_name}"
    error = verdict(code_of(result.error_code), where, result.error_message)
    if error is not None:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error.retriable = False
        return error
    return {
        entry.name: ConfigValue(
            value=entry.value,
            source=_source(int(entry.config_source)),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
        )
        for entry in result.configs
    }


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _alterable(name: str, changes: Sequence[ConfigChange]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=i8(ResourceType.TOPIC),
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=c.name, config_operation=i8(c.op), value=c.value) for c in changes
        ),
    )
