"""What we remember of topics and leaders; never goes back to an older leader epoch. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta


class LeaderCache:
    """Topics by name, from the metadata answers seen so far.

    For requests of a `Cluster`, asked when they need it. Copying has `slots.leaders.Leaders`.
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicMeta] = {}
        self._stale: set[str] = set()

    def topic(self, name: str) -> TopicMeta | None:
        """What we know of a topic, unless it has to be asked for."""
        return None if name in self._stale else self._topics.get(name)

    def learn(self, topics: Iterable[TopicMeta]) -> None:
        """Take what an answer says; a topic with an error is forgotten."""
        for topic in topics:
            if topic.error is not ErrorCode.NONE:
                self._topics.pop(topic.name, None)
            else:
                self._topics[topic.name] = self._newest(topic)
            self._stale.discard(topic.name)

    def forget(self, name: str) -> None:
        """Have the topic asked for again; the epochs that we saw stay."""
        self._stale.add(name)

    def _newest(self, topic: TopicMeta) -> TopicMeta:
        """`topic`, except partitions of which we know a later leader epoch.

        A broker that lags behind may answer with the leader before (KIP-320).
        """
        known = self._topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id:
            return topic
        partitions: dict[int, PartitionMeta] = {}
        for number, partition in topic.partitions.items():
            before = known.partitions.get(number)
            stale = before is not None and before.leader_epoch > partition.leader_epoch
            partitions[number] = before if stale and before is not None else partition
        return topic._replace(partitions=partitions)
