"""A source, look after look: its topics, their configs, and which of them are copies.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.observed import SourceTopic, SourceView, TopicTerms
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
        self._configs = ConfigMemory(cluster, configs_a_look)
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
        await self._catalogs.refresh(there)
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
            origins=self._catalogs.origins,
            acls_from=self._catalogs.acls_from,
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
        self._books: dict[str, CatalogBook] = {}
        self.origins: Origins = {}
        self.acls_from: Mapping[ClusterId, frozenset[AclBinding]] = {}

    @property
    def any(self) -> bool:
        """Whether the source is the target of some fleet."""
        return bool(self._ends)

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read each catalog among `topics` again if it has grown.

        Raises:
            MirrorfleetError: a catalog that is there cannot be read, and it is no matter of access.
        """
        before = dict(self._ends)
        for topic in topics:
            known = control_kind(topic)
            if known is not None and known[1] is ControlKind.CATALOG:
                await self._read(topic)
        if before != self._ends:
            self.origins = _origins_in(self._books.values())
            self.acls_from = _acls_in(self._books.values())

    async def _read(self, topic: str) -> None:
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
        self._books[topic] = _book_of([(each.key, each.value) for each in records])
        self._ends[topic] = listed.offset


def _source_topic(topic: TopicMeta, configs: Configs, *, known: bool) -> SourceTopic:
    return SourceTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=len(topic.partitions),
        replicas=len(topic.partitions[min(topic.partitions)].replicas),
        created_late=not known,
        terms=TopicTerms.of(configs.values),
        overrides=configs.overrides,
    )


def _book_of(records: Iterable[tuple[bytes | None, bytes | None]]) -> CatalogBook:
    """Another fleet's catalog, as far as we can read it."""
    book = CatalogBook()
    for key, value in records:
        try:
            book.learn(catalog.decode(key, value))
        except (UnknownVersionError, CorruptBatchError) as error:
            _log.warning("another fleet's catalog has what we cannot read: %s", error)
    return book


def _origins_in(books: Iterable[CatalogBook]) -> Origins:
    """Cluster ids that each copied topic passed; removed copies still count."""
    merged: dict[str, tuple[ClusterId, ...]] = {}
    for book in books:
        passed = {entry.target_topic: entry.origins for entry in book.partitions.values()}
        for topic, ids in passed.items():
            merged[topic] = tuple(dict.fromkeys((*merged.get(topic, ()), *ids)))
    return merged


def _acls_in(books: Iterable[CatalogBook]) -> dict[ClusterId, frozenset[AclBinding]]:
    """ACLs that fleets added here, by the cluster that they came from."""
    merged: dict[ClusterId, frozenset[AclBinding]] = {}
    for book in books:
        for cluster, bindings in book.acls.items():
            merged[cluster] = merged.get(cluster, frozenset()) | bindings
    return merged
