"""The one table of broker settings: for the local pair, and for the containers of the compose file.

What differs between both are addresses, directories and security; everything else is here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COMMON: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKERS",
    # nothing is made by a typing error, and sync alone makes target topics
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "num.partitions": "1",
    # few, because a small machine opens all of them at start
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "1",
    # 10 MB is sparse, but its first page costs 3 to 20 ms where the kernel reads 8 MB ahead
    "log.index.size.max.bytes": "262144",
    "group.initial.rebalance.delay.ms": "0",
    # what exactly-once needs of a target
    "unclean.leader.election.enable": "false",
}

MAX_REPLICATION: Final = 3


def replication(brokers: int) -> dict[str, str]:
    """Three copies and two in sync where there are brokers for it."""
    factor = min(brokers, MAX_REPLICATION)
    in_sync = min(factor, MAX_REPLICATION - 1)
    return {
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def common(brokers: int) -> dict[str, str]:
    """Every setting that a local broker and a container have in common."""
    return {**COMMON, **replication(brokers)}


def environment(properties: Mapping[str, str]) -> dict[str, str]:
    """The same settings as the environment of the `apache/kafka` image.

    Its rule: KAFKA_ before the name, '.' as '_', '_' as '__', '-' as '___'.
    """
    return {
        "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper(): value
        for name, value in properties.items()
    }


def text(properties: Mapping[str, str]) -> str:
    r"""A properties file; a backslash is doubled, as Java reads it."""
    lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}" for name, value in properties.items()]
    return "\n".join(lines) + "\n"
