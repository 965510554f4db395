"""What a rule says about the topics that it takes, beyond which ones they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.records.catalog import Priority
from mirrorfleet.records.incarnations import FROM_THE_START


class ReplicationPolicy(StrEnum):
    """Where the replication factor of a target topic comes from when it is no number."""

    SOURCE = "source"
    """The source's, or as many brokers as the target has, up or not, when that is less."""
    BROKER_DEFAULT = "broker-default"
    """`default.replication.factor` of the target's brokers (KIP-464)."""


class ConfigPolicy(StrEnum):
    """What a rule does with the configs of its topics."""

    FOLLOW = "follow"
    IGNORE = "ignore"
    """Only what a copy needs is set; the rest is the target's own affair."""


class Apply(StrEnum):
    """Whether drift is corrected or only reported."""

    AUTO = "auto"
    MANUAL = "manual"


Replication = int | ReplicationPolicy

BROKER_DEFAULT: Final = -1
FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """The words are the catalog's (`records.catalog.CatalogPartition`)."""

    start: str = FROM_THE_START
    on_source_loss: str = FAIL
    null_keys: str = FAIL
    priority: Priority = Priority.NORMAL
    throttle: int | None = None
    adopt: bool = False
    replication: Replication = ReplicationPolicy.SOURCE
    configs: ConfigPolicy = ConfigPolicy.FOLLOW
    configs_exclude: frozenset[str] = frozenset()
    apply: Apply = Apply.AUTO


def replication_factor(replication: Replication, source_replicas: int, brokers: int) -> int:
    """What to ask of CreateTopics; -1 is the broker's default.

    `brokers` counts one that is down, too: what is created now stays so when it is back.
    """
    match replication:
        case ReplicationPolicy.BROKER_DEFAULT:
            return BROKER_DEFAULT
        case ReplicationPolicy.SOURCE:
            return min(source_replicas, brokers)
        case _:
            return replication


def factor_words(asked: int, source_replicas: int) -> str:
    """A replication factor to read; one that is lower than the source's says so."""
    if asked == BROKER_DEFAULT:
        return "replication factor the broker's default"
    lower = f", lower than the source's {source_replicas}" if asked < source_replicas else ""
    return f"replication factor {asked}{lower}"
