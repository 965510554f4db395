"""Looking at a source and at a target: metadata each time, the rest as far as it is needed.

Configs are remembered by topic and id, read at once for a topic that is new, and again in turns.
Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterId, TopicId, TopicPartition
from mirrorfleet.kafka.admin import describe_configs
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from mirrorfleet.planning.observed import (
    SOURCE_CONFIGS,
    TARGET_CONFIGS,
    SourceTopic,
    SourceView,
    TargetTopic,
    TargetView,
    TopicTerms,
)
from mirrorfleet.records import catalog
from mirrorfleet.records.topics import ControlKind, control_kind
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.wire.k01_fetch import Isolation

_DEFAULTS_TRIES: Final = 50
_DEFAULTS_PAUSE_S: Final = 0.1

Configs = Mapping[str, str | None]
Origins = Mapping[str, tuple[ClusterId, ...]]

_DENIED: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)

_log = logger(__name__)


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
            elif answer.code in _DENIED:
                self._known[name, topic_id] = {}
        return {name: value for (name, _), value in self._known.items()}

    def forget(self, name: str) -> None:
        """Read this topic's configs at the next look: they were changed."""
        self._known = {key: value for key, value in self._known.items() if key[0] != name}


class SourceWatch:
    """One source, look after look."""

    def __init__(
        self, cluster: Cluster, wants: Callable[[str], bool], *, configs_a_look: int
    ) -> None:
        self.cluster = cluster
        self._wants = wants
        self._configs = ConfigMemory(cluster, SOURCE_CONFIGS, configs_a_look)
        self._catalogs = OtherCatalogs(cluster)
        self._first: frozenset[str] | None = None
        self._seen: frozenset[str] = frozenset()
        self.unconfirmed = 0

    async def look(self) -> SourceView:
        """What the source has now. `unconfirmed` topics wait for the next look.

        Raises:
            MirrorfleetError: the source does not answer.
        """
        metadata = await self.cluster.metadata(None)
        there = {name: topic for name, topic in metadata.topics.items() if _is_there(topic)}
        origins = await self._catalogs.origins(there)
        names = frozenset(there)
        if self._first is None:
            self._first = names
        ready = names & self._seen if self._catalogs.any else names
        self.unconfirmed = sum(1 for name in names - ready if self._wants(name))
        self._seen = names
        wanted = [there[name] for name in sorted(ready) if self._wants(name)]
        configs = await self._configs.of(wanted)
        first = self._first
        return SourceView(
            cluster=metadata.cluster_id,
            topics={
                topic.name: _source_topic(topic, configs[topic.name], known=topic.name in first)
                for topic in wanted
                if topic.name in configs
            },
            origins=origins,
            present=names,
            waiting=(names - ready) | {t.name for t in wanted if t.name not in configs},
            unreadable={
                name: topic.error.name
                for name, topic in metadata.topics.items()
                if name not in there and topic.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            },
        )


class OtherCatalogs:
    """The catalogs of fleets whose target is our source: which of its topics are copies."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends: dict[str, int] = {}
        self._origins: dict[str, Origins] = {}

    @property
    def any(self) -> bool:
        """Whether the source is the target of some fleet."""
        return bool(self._ends)

    async def origins(self, topics: Iterable[str]) -> Origins:
        """Cluster ids that each copied topic passed; a catalog is read again when it has grown.

        Raises:
            MirrorfleetError: a catalog that is there cannot be read, and it is no matter of access.
        """
        for topic in topics:
            known = control_kind(topic)
            if known is not None and known[1] is ControlKind.CATALOG:
                await self._refresh(topic)
        merged: dict[str, tuple[ClusterId, ...]] = {}
        for found in self._origins.values():
            for topic, passed in found.items():
                merged[topic] = tuple(dict.fromkeys((*merged.get(topic, ()), *passed)))
        return merged

    async def _refresh(self, topic: str) -> None:
        at = TopicPartition(topic, 0)
        listed = (await list_offsets(self._cluster, {at: LATEST}))[at]
        if isinstance(listed, BrokerError):
            raise listed
        if self._ends.get(topic) == listed.offset:
            return
        try:
            records = await read_to_end(self._cluster.settings, topic)
        except BrokerError as error:
            if error.code not in _DENIED:
                raise
            # Names still tell; who has `.*` both ways under other aliases is asked to grant READ.
            _log.warning("origins are unknown", extra=fields(topic=topic, error=str(error)))
            records = []
        self._origins[topic] = _origins_in([(each.key, each.value) for each in records])
        self._ends[topic] = listed.offset


class TargetWatch:
    """The target of the fleet."""

    def __init__(self, cluster: Cluster, *, configs_a_look: int, answer_s: float) -> None:
        self.cluster = cluster
        self._answer_s = answer_s
        self.configs = ConfigMemory(cluster, TARGET_CONFIGS, configs_a_look)
        self._defaults: Mapping[str, str] = {}

    async def look(self, wanted: Iterable[str], foreign: Iterable[str]) -> TargetView:
        """The `wanted` topics as far as they exist; of the `foreign` ones also if they are empty.

        Raises:
            MirrorfleetError: the target does not answer.
        """
        metadata = await self.cluster.metadata(None)
        names = set(wanted)
        there = [
            topic for name, topic in metadata.topics.items() if name in names and _is_there(topic)
        ]
        configs = await self.configs.of(there)
        suspects = set(foreign)
        empty = await self._empty([topic for topic in there if topic.name in suspects])
        return TargetView(
            cluster=metadata.cluster_id,
            brokers=len(metadata.brokers),
            topics={
                topic.name: TargetTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=len(topic.partitions),
                    empty=empty.get(topic.name),
                    configs=configs.get(topic.name, {}),
                )
                for topic in there
            },
            defaults=self._defaults,
        )

    async def learn_defaults(self, topic: str) -> None:
        """Take the configs of one of our own topics for what the target gives by default.

        A topic made a moment ago may not be known to every broker yet.

        Raises:
            BrokerError: it stays unknown; what we may not read is left unknown.
        """
        tries = 1 if self._defaults else _DEFAULTS_TRIES
        for left in reversed(range(tries)):
            answer = (await describe_configs(self.cluster, [topic]))[topic]
            if not isinstance(answer, BrokerError):
                self._defaults = {k: v.value for k, v in answer.items() if v.value is not None}
                return
            if answer.code in _DENIED:
                _log.warning("no defaults known", extra=fields(topic=topic, error=str(answer)))
                return
            if not left:
                raise answer
            await asyncio.sleep(_DEFAULTS_PAUSE_S)

    async def _empty(self, topics: Iterable[TopicMeta]) -> dict[str, bool | None]:
        """Whether each topic holds nothing; None when some partition does not answer."""
        partitions = [
            TopicPartition(topic.name, number) for topic in topics for number in topic.partitions
        ]
        ends, starts = [
            await list_offsets(
                self.cluster,
                dict.fromkeys(partitions, spec),
                isolation=Isolation.READ_UNCOMMITTED,
                deadline_s=self._answer_s,
            )
            for spec in (LATEST, EARLIEST)
        ]
        verdicts: dict[str, set[bool | None]] = {}
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


def _is_there(topic: TopicMeta) -> bool:
    return topic.error is ErrorCode.NONE and bool(topic.partitions)


def _source_topic(topic: TopicMeta, configs: Configs, *, known: bool) -> SourceTopic:
    return SourceTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=len(topic.partitions),
        replicas=len(topic.partitions[min(topic.partitions)].replicas),
        created_late=not known,
        terms=TopicTerms.of(configs),
    )


def _origins_in(records: Iterable[tuple[bytes | None, bytes | None]]) -> Origins:
    """Target topic to cluster ids, from the records of a catalog; removed copies still count."""
    entries: dict[object, catalog.CatalogPartition] = {}
    for key, value in records:
        try:
            entry = catalog.decode(key, value)
        except (UnknownVersionError, CorruptBatchError) as error:
            _log.warning("another fleet's catalog has what we cannot read: %s", error)
            continue
        if isinstance(entry, catalog.CatalogPartition):
            entries[entry.identity] = entry
    return {entry.target_topic: entry.origins for entry in entries.values()}
