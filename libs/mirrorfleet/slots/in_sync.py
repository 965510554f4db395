"""Whether partitions of the target have as many replicas in sync as their topics ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.configs import ConfigValue, describe_configs
from mirrorfleet.kafka.together import both_of
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from mirrorfleet.kafka.metadata import TopicMeta
    from mirrorfleet.slots.runner import SlotRunner

ASK_S: Final = 2.0
"""For one answer of the target; without one nothing is left behind."""
_LEAST: Final = "min.insync.replicas"

_log = logger(__name__)


class InSync:
    """What one slot knows of the replicas of its copies."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._least: dict[str, int] = {}
        """How many replicas of a target topic's partitions must be in sync, as far as known."""

    @property
    def short(self) -> frozenset[TopicPartition]:
        """Copies that have too few, as far as known."""
        in_sync, copied = self._runner.targets.in_sync, self._runner.slot.partitions.values()
        found = ((p.target, in_sync(*p.target)) for p in copied)
        return frozenset(
            at for at, count in found if count is not None and count < self._least.get(at.topic, 0)
        )

    async def sick_of(self, suspects: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Those without a leader, or with fewer replicas in sync than their topic asks for.

        The others are only slow: with one broker down most partitions lack a replica, and go on
        (min.insync.replicas, ReplicaManager). Without the right to DescribeConfigs nobody knows.
        """
        target, asked = self._runner.target, sorted({at.topic for at in suspects})
        copied = {partition.target.topic for partition in self._runner.slot.partitions.values()}
        try:
            found, configs = await both_of(
                target.metadata(asked, deadline_s=ASK_S),
                describe_configs(
                    target, sorted(copied.union(asked)), keys=[_LEAST], deadline_s=ASK_S
                ),
            )
        except MirrorfleetError as error:
            _log.info("who is in sync cannot be known", extra=fields(error=str(error)))
            return frozenset()
        self._least = {topic: _least_of(answer) for topic, answer in configs.items()}
        return frozenset(at for at in suspects if self._is_sick(at, found.topics.get(at.topic)))

    def _is_sick(self, at: TopicPartition, topic: TopicMeta | None) -> bool:
        meta = None if topic is None else topic.partitions.get(at.partition)
        if meta is None:
            return False
        least = min(self._least.get(at.topic, 0), len(meta.replicas))  # effectiveMinIsr
        return meta.leader < 0 or len(meta.isr) < least


def _least_of(answer: dict[str, ConfigValue] | BrokerError) -> int:
    """What a topic's configs say; 0 when they are not told."""
    known = None if isinstance(answer, BrokerError) else answer.get(_LEAST)
    return int(known.value or 0) if known else 0
