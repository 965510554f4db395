"""A source, look after look: its topics, their configs, and which of them are copies.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.planning.observed import SOURCE_CONFIGS, SourceTopic, SourceView, TopicTerms
from mirrorfleet.records import catalog
from mirrorfleet.records.topics import ControlKind, control_kind
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.watching.configs import DENIED, ConfigMemory, Configs, is_there

Origins = Mapping[str, tuple[ClusterId, ...]]

_log = logger(__name__)


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
        there = {name: topic for name, topic in metadata.topics.items() if is_there(topic)}
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
            if error.code not in DENIED:
                raise
            # Names still tell; who has `.*` both ways under other aliases is asked to grant READ.
            _log.warning("origins are unknown", extra=fields(topic=topic, error=str(error)))
            records = []
        self._origins[topic] = _origins_in([(each.key, each.value) for each in records])
        self._ends[topic] = listed.offset


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
