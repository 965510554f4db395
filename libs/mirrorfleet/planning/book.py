"""The catalog as `sync` knows it: what it read, and what it wrote since. No I/O.

Nothing is derived from anything else: a restart reads the same records and knows the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, PartitionIdentity, SlotNumber
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.catalog import (
    CatalogAcl,
    CatalogConfig,
    CatalogEntry,
    CatalogLink,
    CatalogPartition,
    CatalogState,
    Removed,
)

Acls = Mapping[AclBinding, tuple[ClusterId, ...]]


class CatalogBook:
    """Entries by key, as the compacted topic holds them."""

    def __init__(self) -> None:
        self.partitions: dict[PartitionIdentity, CatalogPartition] = {}
        self.links: dict[ClusterId, CatalogLink] = {}
        self.acls: dict[ClusterId, dict[AclBinding, tuple[ClusterId, ...]]] = {}
        self.config: CatalogConfig | None = None

    def learn(self, entry: CatalogEntry | Removed) -> None:
        """Take one record's content, in the order of the topic."""
        match entry:
            case CatalogPartition():
                self.partitions[entry.identity] = entry
            case CatalogLink():
                self.links[entry.source_cluster] = entry
            case CatalogConfig():
                self.config = entry
            case CatalogAcl():
                self.acls_of(entry.source_cluster)[entry.binding] = entry.origins
            case Removed(acl=CatalogAcl() as acl):
                self.acls_of(acl.source_cluster).pop(acl.binding, None)
            case Removed(identity=PartitionIdentity() as identity):
                self.partitions.pop(identity, None)

    def is_same_as(self, other: CatalogBook) -> bool:
        """Whether both hold the same entries, however these came."""
        return (
            self.partitions == other.partitions
            and self.links == other.links
            and self.config == other.config
            and _held(self.acls) == _held(other.acls)
        )

    def of_source(self, source: ClusterId) -> Iterator[CatalogPartition]:
        """Every entry with this source cluster, removed ones too."""
        return (entry for entry in self.partitions.values() if is_from(entry, source))

    def acls_of(self, source: ClusterId) -> dict[AclBinding, tuple[ClusterId, ...]]:
        """The ACLs of the target that fleets added and this source has, with what they passed."""
        return self.acls.setdefault(source, {})

    def claims(self) -> list[Claim]:
        """What is being copied now, a claim a topic."""
        return _claims(e for e in self.partitions.values() if e.state is not CatalogState.REMOVED)

    def ended(self, link: Link) -> list[Claim]:
        """What the link copied once, a claim a topic: the copies are still there."""
        return _claims(
            entry
            for entry in self.partitions.values()
            if entry.link == link and entry.state is CatalogState.REMOVED
        )

    def slots_taken(self, source: ClusterId) -> list[SlotNumber]:
        """The slot of each partition that is copied from `source`."""
        return [
            entry.slot
            for entry in self.of_source(source)
            if entry.state is not CatalogState.REMOVED
        ]

    def slots_elsewhere(self, source: ClusterId) -> list[SlotNumber]:
        """Slots of the other links."""
        return [
            slot
            for cluster, entry in self.links.items()
            if cluster != source
            for slot in entry.slots
        ]

    def highest_slot(self) -> int:
        """The highest slot number that any link has; -1 without links."""
        return max((slot for entry in self.links.values() for slot in entry.slots), default=-1)


def _held(acls: Mapping[ClusterId, Acls]) -> dict[ClusterId, Acls]:
    """Without the sources that were only asked about."""
    return {source: each for source, each in acls.items() if each}


def is_from(entry: CatalogPartition, source: ClusterId) -> bool:
    """Whether the entry's records come from this cluster."""
    return entry.identity.source_cluster == source


def check_link(
    book: CatalogBook,
    link: Link,
    source: ClusterId,
    target: ClusterId,
    others: Mapping[ClusterAlias, ClusterId] | None = None,
) -> None:
    """See that the link's aliases mean what they meant, and different clusters.

    `others` are the sources of the fleet's other links, as far as they are known.

    Raises:
        RefusedError: same cluster.id at both ends, or at two sources; an alias or a cluster that
            changed its partner.
    """
    _check_twin(link, source, others or {})
    if source == target:
        raise RefusedError(
            f"link {link}: {link.source!r} and {link.target!r} are the same cluster"
            f" (cluster.id {source}).",
            hint="Check `bootstrap` of both in the estate; nothing was written.",
        )
    known = book.links.get(source)
    if known is not None and known.link.source != link.source:
        raise RefusedError(
            f"link {link}: cluster.id {source} is in the catalog as {known.link.source!r}.",
            hint=f"Name it {known.link.source!r} again: target topics are named after it.",
        )
    if known is not None and known.target_cluster != target:
        raise RefusedError(
            f"link {link}: the catalog is of target cluster.id {known.target_cluster},"
            f" this is {target}.",
            hint="A restored or cloned target needs a new fleet name.",
        )
    if known is not None and known.link.target != link.target:
        raise RefusedError(
            f"link {link}: its target is in the catalog as {known.link.target!r}.",
            hint=f"Name it {known.link.target!r} again: what is copied is known by both names.",
        )
    other = _cluster_of(book, link.source)
    if other is not None and other != source:
        raise RefusedError(
            f"link {link}: {link.source!r} was cluster.id {other} and is now {source}.",
            hint="Check its `bootstrap`; a new cluster needs a new alias.",
        )


def _check_twin(link: Link, source: ClusterId, others: Mapping[ClusterAlias, ClusterId]) -> None:
    """The catalog knows a link by its source's cluster.id: two of one id would be one link there.

    Raises: RefusedError.
    """
    for alias, cluster in others.items():
        if cluster == source and alias != link.source:
            raise RefusedError(
                f"link {link}: {link.source!r} and {alias!r} are the same cluster"
                f" (cluster.id {source}).",
                hint="Put the rules of both into one link; nothing was written for it.",
            )


def _cluster_of(book: CatalogBook, alias: ClusterAlias) -> ClusterId | None:
    for cluster, entry in book.links.items():
        if entry.link.source == alias:
            return cluster
    return None


def _claims(entries: Iterable[CatalogPartition]) -> list[Claim]:
    return list(
        dict.fromkeys(Claim(e.link, e.rule, e.source_topic, e.target_topic) for e in entries)
    )
