"""What we remember of topics and leaders; never goes back to an older leader epoch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import TopicId
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta

PUT_BACK_S: Final = 300.0
"""Earlier epochs are believed when nobody tells the later one any more: a cluster may have been put
back from a copy of its disks. Longer than a broker is cut off and the only one that we ask."""


class Newest(NamedTuple):
    """The last epoch of a partition, and when it was told for the last time (monotonic seconds)."""

    topic_id: TopicId
    epoch: int
    told_at: float

    def outdates(self, told: Newest) -> bool:
        """Whether that is from a broker that was cut off from its controllers (KIP-320)."""
        is_earlier = told.topic_id == self.topic_id and told.epoch < self.epoch
        return is_earlier and told.told_at - self.told_at < PUT_BACK_S


class LeaderCache:
    """Topics by name, from the metadata answers seen so far.

    For requests of a `Cluster`, asked when they need it. Copying has `slots.leaders.Leaders`.
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicMeta] = {}
        self._told: dict[str, dict[int, Newest]] = {}
        self._stale: set[str] = set()

    def topic(self, name: str) -> TopicMeta | None:
        """What we know of a topic, unless it has to be asked for."""
        return None if name in self._stale else self._topics.get(name)

    def learn(self, topics: Iterable[TopicMeta], now: float) -> None:
        """Take what an answer says now (monotonic); a topic with an error is forgotten."""
        for topic in topics:
            if topic.error is not ErrorCode.NONE:
                self._topics.pop(topic.name, None)
                self._told.pop(topic.name, None)
            else:
                self._topics[topic.name] = self._newest(topic, now)
            self._stale.discard(topic.name)

    def keep_only(self, names: Collection[str], now: float) -> None:
        """Forget topics that an answer about all topics lacks, and whoever tells the truth, too."""
        for name in self._told.keys() - set(names):
            last = max((one.told_at for one in self._told[name].values()), default=-PUT_BACK_S)
            if now - last >= PUT_BACK_S:
                del self._told[name]
                self._topics.pop(name, None)
                self._stale.discard(name)

    def forget(self, name: str) -> None:
        """Have the topic asked for again; the epochs that we saw stay."""
        self._stale.add(name)

    def _newest(self, topic: TopicMeta, now: float) -> TopicMeta:
        """`topic`, except partitions of which we know a later leader epoch."""
        before = self._topics.get(topic.name, topic).partitions
        told_before = self._told.get(topic.name, {})
        partitions: dict[int, PartitionMeta] = {}
        told: dict[int, Newest] = {}
        for number, partition in topic.partitions.items():
            this = Newest(topic.topic_id, partition.leader_epoch, now)
            known = told_before.get(number)
            is_outdated = known is not None and known.outdates(this)
            told[number] = known if known is not None and is_outdated else this
            partitions[number] = before[number] if is_outdated else partition
        self._told[topic.name] = told
        return topic._replace(partitions=partitions)
