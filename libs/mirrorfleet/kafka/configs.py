"""Configs of topics and brokers: described, altered. Names and values are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse, DescribeConfigsResult
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.controller import Mode, ask_controller, on_controller
from mirrorfleet.kafka.each import Results, each_until_deadline, verdict


class ResourceType(IntEnum):
    """What a config belongs to, as the protocol numbers it."""

    TOPIC = 2


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
        answer = await ask_controller(cluster, request, IncrementalAlterConfigsResponse, left_s)
        return {
            r.resource_name: verdict(
                code_of(r.error_code), f"configs of {r.resource_name}", r.error_message
            )
            for r in answer.responses
        }

    return await on_controller(cluster, "IncrementalAlterConfigs", changes, attempt, deadline_s)


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
    final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    error = verdict(code_of(result.error_code), where, result.error_message, final=final)
    if error is not None:
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
