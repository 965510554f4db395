"""The target of a fleet, look after look: the topics that claims name, and what it gives them.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mirrorfleet.core.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import Link, TopicPartition
from mirrorfleet.kafka.admin import default_configs
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from mirrorfleet.planning.observed import TargetTopic, TargetView
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.watching.configs import ConfigMemory, Configs, is_there
from mirrorfleet.wire.k01_fetch import Isolation

_log = logger(__name__)


class TargetWatch:
    """The target of the fleet."""

    def __init__(self, cluster: Cluster, *, configs_a_look: int, answer_s: float) -> None:
        self.cluster = cluster
        self._answer_s = answer_s
        self._configs_a_look = configs_a_look
        self._configs: dict[Link, ConfigMemory] = {}
        self._defaults: Mapping[str, str] = {}
        self._probe = ""
        """The name of a topic to ask for defaults with."""
        self._due = False
        """Whether to ask with the next look."""
        self._trouble = ""
        """Why the defaults could not be read, as it was logged last."""

    async def look(self, link: Link, wanted: Iterable[str], foreign: Iterable[str]) -> TargetView:
        """The `wanted` topics as far as they exist; of the `foreign` ones also if they are empty.

        `link` is whose they are: a look would make one memory for all forget those of the others.

        Raises:
            MirrorfleetError: the target does not answer.
        """
        metadata = await self.cluster.metadata(None)
        await self._learn_again()
        names = set(wanted)
        there = [
            topic for name, topic in metadata.topics.items() if name in names and is_there(topic)
        ]
        configs = await self._memory(link).of(there)
        suspects, unread = set(foreign), Configs()
        empty = await self._empty([topic for topic in there if topic.name in suspects])
        return TargetView(
            cluster=metadata.cluster_id,
            brokers=metadata.members,
            topics={
                topic.name: TargetTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=len(topic.partitions),
                    empty=empty.get(topic.name),
                    configs=configs.get(topic.name, unread).values,
                    overrides=configs.get(topic.name, unread).overrides,
                    unread=topic.name not in configs,
                )
                for topic in there
            },
            defaults=self._defaults,
        )

    def forget(self, topics: Collection[str]) -> None:
        """Read the configs of these topics at the next look: they were changed."""
        for memory in self._configs.values():
            memory.forget(topics)

    def begin_anew(self) -> None:
        """Know of no topic: others may have changed them since."""
        self._configs.clear()

    def _memory(self, link: Link) -> ConfigMemory:
        if link not in self._configs:
            self._configs[link] = ConfigMemory(self.cluster, self._configs_a_look)
        return self._configs[link]

    async def learn_defaults(self, topic: str) -> None:
        """Ask what the target would give a topic of this name; nothing is created.

        What it does not tell us is asked for again at each look.
        Raises: MirrorfleetError: it does not answer.
        """
        self._probe, self._due = topic, True
        await self._ask_defaults(None)

    def doubt_defaults(self) -> None:
        """Ask again with the next look: a target that was upgraded knows other names than before.

        What it told before counts until it tells something else.
        """
        self._due = bool(self._probe)

    async def _learn_again(self) -> None:
        """A broker that restarts refuses for a moment only. No look fails for want of defaults."""
        if not self._due:
            return
        try:
            await self._ask_defaults(self._answer_s)
        except (ConnectionLostError, DeadlineError) as error:
            self._unknown(error)

    async def _ask_defaults(self, deadline_s: float | None) -> None:
        answer = await default_configs(self.cluster, self._probe, deadline_s=deadline_s)
        if isinstance(answer, BrokerError):
            self._unknown(answer)
        else:
            self._defaults, self._due, self._trouble = answer, False, ""

    def _unknown(self, error: MirrorfleetError) -> None:
        """Told once for each reason: who may not create topics is refused at every look."""
        if self._trouble != str(error):
            self._trouble = str(error)
            what = "defaults not read again" if self._defaults else "no defaults known"
            _log.warning(what, extra=fields(topic=self._probe, error=str(error)))

    async def _empty(self, topics: Iterable[TopicMeta]) -> dict[str, bool | None]:
        """Whether each topic holds nothing; None when some partition does not answer.

        One without a leader is not asked: every look would wait for it, and all links with it.
        """
        verdicts: dict[str, set[bool | None]] = {}
        partitions: list[TopicPartition] = []
        for topic in topics:
            for number, partition in topic.partitions.items():
                if partition.leader < 0:
                    verdicts.setdefault(topic.name, set()).add(None)
                else:
                    partitions.append(TopicPartition(topic.name, number))
        ends, starts = [
            await list_offsets(
                self.cluster,
                dict.fromkeys(partitions, spec),
                isolation=Isolation.READ_UNCOMMITTED,
                deadline_s=self._answer_s,
            )
            for spec in (LATEST, EARLIEST)
        ]
        for at in partitions:
            verdicts.setdefault(at.topic, set()).add(_same(starts[at], ends[at]))
        return {topic: _all_empty(found) for topic, found in verdicts.items()}


def _same(start: ListedOffset | BrokerError, end: ListedOffset | BrokerError) -> bool | None:
    if isinstance(start, BrokerError) or isinstance(end, BrokerError):
        return None
    return start.offset == end.offset


def _all_empty(verdicts: set[bool | None]) -> bool | None:
    """A record anywhere is a record, whoever did not answer."""
    if False in verdicts:
        return False
    return None if None in verdicts else True
