"""What `sync` saw of a link's two clusters: plain values, from which everything is decided.

The defaults of configs that decide how a topic is copied are Kafka's, so that a cluster that does
not let us describe configs is treated as one that never changed them; `overrides` are None then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterId, TopicId
from mirrorfleet.policy.configs import MAX_BYTES

CLEANUP: Final = "cleanup.policy"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
RETENTION: Final = "retention.ms"
BEFORE_MAX: Final = "message.timestamp.before.max.ms"
AFTER_MAX: Final = "message.timestamp.after.max.ms"
DIFFERENCE_MAX: Final = "message.timestamp.difference.max.ms"
"""Before Kafka 4.0: counts where one of the other two is unlimited, which is its default there, too
(LogConfig.getMessageTimestampBeforeMaxMs)."""
COMPRESSION: Final = "compression.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTerms:
    """The configs of a topic that matter to copying. `retention_ms` -1 is unlimited."""

    cleanup_policy: str = "delete"
    append_time: bool = False
    retention_ms: int = 604_800_000
    max_message_bytes: int = 1_048_588

    @property
    def compacted(self) -> bool:
        """Whether records need keys."""
        return "compact" in self.cleanup_policy

    @property
    def kept_ms(self) -> int:
        """How long a record stays; -1 without end, which is so when nothing is ever deleted."""
        return self.retention_ms if "delete" in self.cleanup_policy else -1

    @classmethod
    def of(cls, configs: Mapping[str, str | None]) -> TopicTerms:
        """From Kafka's names and values; what is absent or null keeps Kafka's default."""
        given = {name: value for name, value in configs.items() if value is not None}
        fallback = cls()
        return cls(
            cleanup_policy=given.get(CLEANUP, fallback.cleanup_policy),
            append_time=given.get(TIMESTAMP_TYPE) == "LogAppendTime",
            retention_ms=int(given.get(RETENTION, fallback.retention_ms)),
            max_message_bytes=int(given.get(MAX_BYTES, fallback.max_message_bytes)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A topic of the source."""

    name: str
    topic_id: TopicId
    partitions: int
    replicas: int = 1
    terms: TopicTerms = field(default_factory=TopicTerms)
    overrides: Mapping[str, str] | None = field(default_factory=dict)
    """What was set on the topic itself; None when we may not read it."""

    @property
    def kept_ms(self) -> int | None:
        """How long a record stays, as `TopicTerms.kept_ms`; None when nobody tells."""
        return None if self.overrides is None else self.terms.kept_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """A topic of the target. `empty` is None when it was not asked or not answered."""

    name: str
    topic_id: TopicId
    partitions: int
    empty: bool | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    """Effective values; the keys are the names that this cluster knows."""
    overrides: Mapping[str, str] | None = field(default_factory=dict)
    unread: bool = False
    """Its configs were asked for and not told, as by a broker that lags: they may be anything."""

    @property
    def terms(self) -> TopicTerms:
        """What of its configs matters to copying."""
        return TopicTerms.of(self.configs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """The source. `topics` are those that some rule matches; `present` is every name there."""

    cluster: ClusterId
    topics: Mapping[str, SourceTopic]
    present: frozenset[str] = frozenset()
    wanted: Mapping[str, TopicId] = field(default_factory=dict)
    """Every topic there that some rule is about, those that wait, too."""
    waiting: frozenset[str] = frozenset()
    """Topics that are there and not yet to be decided on."""
    origins: Mapping[str, tuple[ClusterId, ...]] = field(default_factory=dict)
    """Topics that are copies, and the cluster ids that they passed."""
    acl_ways: Mapping[AclBinding, Sequence[tuple[ClusterId, ...]]] = field(default_factory=dict)
    """ACLs here that fleets added, with what each passed on each of its ways, nearest first."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Topics that the source would not show, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """The target. `defaults`: what a topic created there gets; its keys are what it knows."""

    cluster: ClusterId
    brokers: int
    topics: Mapping[str, TargetTopic]
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsSeen:
    """The ACLs of a link's two clusters. `trouble` says why they cannot be followed, or is ""."""

    source: frozenset[AclBinding] = frozenset()
    target: frozenset[AclBinding] = frozenset()
    passed: Mapping[AclBinding, tuple[ClusterId, ...] | None] = field(default_factory=dict)
    """ACLs of the source that fleets put there, with what they passed, nearest first; None for one
    that is there because our target has it."""
    shared: frozenset[AclBinding] = frozenset()
    """ACLs of the target that are also there for another source of the fleet."""
    trouble: str = ""
