"""Configs of topics, remembered by topic and id.

Read at once for a topic that is new, and again in turns: a look never asks for more than some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicId
from mirrorfleet.kafka.admin import describe_configs
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta

Configs = Mapping[str, str | None]

DENIED: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)


class ConfigMemory:
    """Configs of one cluster's topics; some are read again with each look."""

    def __init__(self, cluster: Cluster, keys: Sequence[str], at_once: int) -> None:
        self._cluster = cluster
        self._keys = keys
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
        self._known = {**dict(list(kept.items())[self._at_once :])}  # those read again go last
        found = await describe_configs(self._cluster, [name for name, _ in asked], keys=self._keys)
        for name, topic_id in asked:
            answer = found[name]
            if not isinstance(answer, BrokerError):
                self._known[name, topic_id] = {key: each.value for key, each in answer.items()}
            elif (name, topic_id) in kept:
                self._known[name, topic_id] = kept[name, topic_id]
            elif answer.code in DENIED:
                self._known[name, topic_id] = {}
        return {name: value for (name, _), value in self._known.items()}

    def forget(self, name: str) -> None:
        """Read this topic's configs at the next look: they were changed."""
        self._known = {key: value for key, value in self._known.items() if key[0] != name}


def is_there(topic: TopicMeta) -> bool:
    """Whether the metadata is of a topic that exists and may be seen."""
    return topic.error is ErrorCode.NONE and bool(topic.partitions)
