"""Configs of topics, remembered by topic and id.

Read at once for a topic that is new, and again in turns: a look never asks for more than some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirrorfleet.core.error_codes import DENIED, ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigSource, ConfigValue, describe_configs
from mirrorfleet.kafka.metadata import TopicMeta

_TOPICS_A_REQUEST: Final = 200
"""One answer has all configs of so many topics, some 250 KB: read without a stall of the loop."""


@dataclass(frozen=True, slots=True)
class Configs:
    """Effective values of a topic's configs, and which were set on the topic itself.

    `overrides` is None when we may not read them.
    """

    values: Mapping[str, str | None] = field(default_factory=dict)
    overrides: Mapping[str, str] | None = None

    @classmethod
    def of(cls, entries: Mapping[str, ConfigValue]) -> Configs:
        """From an answer of DescribeConfigs; sensitive and read-only entries are no overrides."""
        return cls(
            {name: entry.value for name, entry in entries.items()},
            {
                name: entry.value
                for name, entry in entries.items()
                if entry.source is ConfigSource.TOPIC
                and entry.value is not None
                and not entry.read_only
                and not entry.sensitive
            },
        )


class ConfigMemory:
    """Configs of one cluster's topics; `at_once` of them are read again with each look."""

    def __init__(self, cluster: Cluster, at_once: int) -> None:
        self._cluster = cluster
        self._at_once = at_once
        self._known: dict[tuple[str, TopicId], Configs] = {}

    async def of(self, topics: Iterable[TopicMeta]) -> dict[str, Configs]:
        """Configs by topic name; a topic whose configs we may not read has none.

        Raises:
            MirrorfleetError: the cluster does not answer.
        """
        wanted = {(topic.name, topic.topic_id) for topic in topics}
        kept = {key: value for key, value in self._known.items() if key in wanted}
        new = sorted(wanted - kept.keys())
        asked = [*new, *list(kept)[: self._at_once]]
        found = await self._read([name for name, _ in asked])
        known = dict(list(kept.items())[self._at_once :])  # those read again go last
        for name, topic_id in asked:
            answer = found[name]
            if not isinstance(answer, BrokerError):
                known[name, topic_id] = Configs.of(answer)
            elif (name, topic_id) in kept:
                known[name, topic_id] = kept[name, topic_id]
            elif answer.code in DENIED:
                known[name, topic_id] = Configs()
        self._known = known  # not before: a look that is given up forgets nothing
        return {name: value for (name, _), value in known.items()}

    async def _read(self, names: list[str]) -> dict[str, dict[str, ConfigValue] | BrokerError]:
        found: dict[str, dict[str, ConfigValue] | BrokerError] = {}
        for start in range(0, len(names), _TOPICS_A_REQUEST):
            part = names[start : start + _TOPICS_A_REQUEST]
            found |= await describe_configs(self._cluster, part)
        return found

    def forget(self, names: Collection[str]) -> None:
        """Read the configs of these topics at the next look: they were changed."""
        self._known = {key: value for key, value in self._known.items() if key[0] not in names}


def is_there(topic: TopicMeta) -> bool:
    """Whether the metadata is of a topic that exists and may be seen."""
    return topic.error is ErrorCode.NONE and bool(topic.partitions)
