"""`__mirrorfleet.F.registry`: which producer ids are ours, and where their records come from.

    key    version  producer id
    value  version  origin cluster.id  source alias  target alias  since

Registered before the first batch of an id is written, never removed: a link going back reads it
to know a copy from a local write. An unknown version raises UnknownVersionError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.records.identity import read_cluster_id, write_cluster_id
from mirrorfleet.records.packing import Reader, Writer

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """That `producer_id` on the target cluster writes what came from `origin` over `link`."""

    producer_id: int
    origin: ClusterId
    link: Link
    since_ms: int


def encode(entry: Registration) -> tuple[bytes, bytes]:
    """Key and value."""
    key = Writer(VERSION)
    key.unsigned(entry.producer_id)
    out = Writer(VERSION)
    write_cluster_id(out, entry.origin)
    out.text(entry.link.source)
    out.text(entry.link.target)
    out.unsigned(entry.since_ms)
    return key.done(), out.done()


def decode(key: bytes | None, value: bytes | None) -> Registration:
    """The registration.

    Raises: UnknownVersionError, CorruptBatchError (also for a tombstone: ids are never removed).
    """
    if key is None or value is None:
        raise CorruptBatchError("registry: a record without key or value")
    head = Reader(key, "registry key", version=VERSION)
    producer_id = head.unsigned()
    head.end()
    data = Reader(value, "registration", version=VERSION)
    entry = Registration(
        producer_id=producer_id,
        origin=read_cluster_id(data),
        link=Link(ClusterAlias(data.text()), ClusterAlias(data.text())),
        since_ms=data.unsigned(),
    )
    data.end()
    return entry
