"""A source, look after look: its topics, their configs, and which of them are copies.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.error_codes import DENIED, ErrorCode
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, UnknownVersionError, may_not
from mirrorfleet.core.ids import ClusterId, TopicId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_reading import read_below
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.observed import SourceTopic, SourceView, TopicTerms
from mirrorfleet.records import catalog
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.topics import ControlKind, control_kind
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.watching.configs import ConfigMemory, Configs, is_there

_log = logger(__name__)


@dataclass(slots=True)
class Origins:
    """The clusters that copies passed, by name where a fleet copies, and by id also afterwards.

    What has ended says nothing of another topic that has the name now.
    """

    by_name: dict[str, tuple[ClusterId, ...]] = field(default_factory=dict)
    by_id: dict[TopicId, tuple[ClusterId, ...]] = field(default_factory=dict)

    def of(self, topic: TopicMeta) -> tuple[ClusterId, ...]:
        """Empty when the topic is nobody's copy."""
        return _merged(self.by_name.get(topic.name, ()), self.by_id.get(topic.topic_id, ()))


class SourceWatch:
    """One source, look after look."""

    def __init__(
        self, cluster: Cluster, wants: Callable[[str], bool], *, configs_a_look: int
    ) -> None:
        self.cluster = cluster
        self._wants = wants
        self._configs_a_look = configs_a_look
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know of no topic and no catalog: others may have changed them since."""
        self._configs = ConfigMemory(self.cluster, self._configs_a_look)
        self._catalogs = OtherCatalogs(self.cluster)
        self._seen: frozenset[str] = frozenset()
        self.unconfirmed = 0

    @property
    def loop_trouble(self) -> str:
        """Why a copy could go back to where it came from, and what helps; "" when none can."""
        return self._catalogs.trouble

    async def look(self) -> SourceView:
        """What the source has now. `unconfirmed` topics wait for the next look.

        Raises:
            MirrorfleetError: the source does not answer.
        """
        metadata = await self.cluster.metadata(None)
        there = {name: topic for name, topic in metadata.topics.items() if is_there(topic)}
        await self._catalogs.refresh(there)
        names = frozenset(there)
        ready = names & self._seen if self._catalogs.any else names
        wanted = {name: each.topic_id for name, each in there.items() if self._wants(name)}
        decided = [there[name] for name in sorted(wanted.keys() & ready)]
        configs = await self._configs.of(decided)
        # not before the end: a look that is given up confirms nothing for the next one
        self.unconfirmed, self._seen = len(wanted.keys() - ready), names
        return SourceView(
            cluster=metadata.cluster_id,
            topics={
                topic.name: _source_topic(topic, configs[topic.name])
                for topic in decided
                if topic.name in configs
            },
            origins=self._catalogs.origins_of(there.values()),
            acl_ways=self._catalogs.acl_ways,
            present=names,
            wanted=wanted,
            waiting=(names - ready) | {t.name for t in decided if t.name not in configs},
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
        self._denied: set[str] = set()
        """Catalogs that we may not read as they are now."""
        self._origins = Origins()
        self.acl_ways: Mapping[AclBinding, list[tuple[ClusterId, ...]]] = {}

    @property
    def any(self) -> bool:
        """Whether the source is the target of some fleet."""
        return bool(self._books)

    @property
    def trouble(self) -> str:
        """Which catalogs may not be read, what follows, and what to grant; "" when all may be."""
        if not self._denied:
            return ""
        settings = self._cluster.settings
        topics = f"Topic:{', '.join(sorted(self._denied))}"
        text = may_not(settings.security.principal, "READ", topics, settings.alias)
        return (
            f"{text}, where another fleet says which topics are its copies: one whose name does not"
            " tell could go back to where it came from. Grant this READ"
        )

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read each catalog among `topics` again if it has grown.

        Raises:
            MirrorfleetError: a catalog that is there cannot be read, and it is no matter of access.
        """
        before = dict(self._ends)
        catalogs = [topic for topic in topics if _is_catalog(topic)]
        self._denied.intersection_update(catalogs)
        try:
            for topic in catalogs:
                await self._read(topic)
        finally:  # what was read before it failed, or was given up, is not read again
            if before != self._ends:
                self._origins = origins_in(self._books.values())
                self.acl_ways = acls_in(self._books.values())

    def origins_of(self, topics: Iterable[TopicMeta]) -> dict[str, tuple[ClusterId, ...]]:
        """Those that are copies, with the clusters that they passed."""
        found = ((topic.name, self._origins.of(topic)) for topic in topics)
        return {name: passed for name, passed in found if passed}

    async def _read(self, topic: str) -> None:
        at = TopicPartition(topic, 0)
        listed = (await list_offsets(self._cluster, {at: LATEST}))[at]
        if isinstance(listed, BrokerError):
            raise listed
        if self._ends.get(topic) == listed.offset:
            return
        try:
            records = await read_below(self._cluster, at, listed.offset)
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            # Names still tell, and what was read before; who has `.*` both ways under other aliases
            # is asked to grant READ, which the next look notices.
            if topic not in self._denied:
                _log.warning("origins are unknown", extra=fields(topic=topic, error=str(error)))
            self._denied.add(topic)
            self._books.setdefault(topic, CatalogBook())
            return
        self._denied.discard(topic)
        self._books[topic] = _book_of([(each.key, each.value) for each in records])
        self._ends[topic] = listed.offset


def _is_catalog(topic: str) -> bool:
    known = control_kind(topic)
    return known is not None and known[1] is ControlKind.CATALOG


def _source_topic(topic: TopicMeta, configs: Configs) -> SourceTopic:
    return SourceTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=len(topic.partitions),
        # while a partition is moved it has those that it leaves and those that it comes to
        replicas=min(len(each.replicas) for each in topic.partitions.values()),
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


def origins_in(books: Iterable[CatalogBook]) -> Origins:
    """What the catalogs say of the topics here; removed copies still count."""
    found = Origins()
    for entry in (entry for book in books for entry in book.partitions.values()):
        name, topic_id, passed = entry.target_topic, entry.identity.target_topic_id, entry.origins
        found.by_id[topic_id] = _merged(found.by_id.get(topic_id, ()), passed)
        if entry.state is not CatalogState.REMOVED:
            found.by_name[name] = _merged(found.by_name.get(name, ()), passed)
    return found


def _merged(first: tuple[ClusterId, ...], second: tuple[ClusterId, ...]) -> tuple[ClusterId, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def acls_in(books: Iterable[CatalogBook]) -> dict[AclBinding, list[tuple[ClusterId, ...]]]:
    """ACLs that fleets added here, with the clusters that each passed, a way a source."""
    ways: dict[AclBinding, list[tuple[ClusterId, ...]]] = {}
    for book in books:
        for cluster, bindings in book.acls.items():
            for binding, origins in bindings.items():
                ways.setdefault(binding, []).append((cluster, *origins))
    return ways
