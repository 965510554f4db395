"""What an operator asks of a topic, or a partition: the catalog says so, and `sync` keeps it.

    pause     nothing more is fetched; what was fetched is committed; position, map, groups stay
    resume    it goes on where it stopped, behind the last record that was committed
    throttle  so many bytes a second are read of each partition, whatever its rule says

What was asked of a topic as a whole holds for what it gets later, a partition or an incarnation.
What the source deletes meanwhile is a loss as any: the time until then is told as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from mirrorfleet.core.errors import FencedError, OutdatedError, RefusedError
from mirrorfleet.core.ids import FleetName, Link
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.asking import named
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.topics import without_partition
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.syncing.store import Store

COLUMNS: Final = ("topic", "partition", "before", "now")
_TRIES: Final = 5
"""`sync` may write the catalog at the same time."""

_SEE: Final = "It is the name at the source; all of them: mirrorfleet status --target {}"

Row = dict[str, object]


class Wish(Protocol):
    """What is asked of each partition."""

    def heeded(self, entry: CatalogPartition) -> CatalogPartition:
        """The entry with it."""
        ...

    def told(self, entry: CatalogPartition) -> object:
        """What an entry says of it."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """That it stands, or goes on."""

    state: CatalogState

    def heeded(self, entry: CatalogPartition) -> CatalogPartition:
        """In that state."""
        return replace(entry, state=self.state)

    def told(self, entry: CatalogPartition) -> object:
        """Its state."""
        return str(entry.state)


@dataclass(frozen=True, slots=True)
class Throttled:
    """Bytes a second, instead of what its rule says; None: as its rule says, of `rules`."""

    limit: int | None
    rules: Mapping[str, int | None]

    def heeded(self, entry: CatalogPartition) -> CatalogPartition:
        """With that throttle."""
        limit = self.rules.get(entry.rule) if self.limit is None else self.limit
        return replace(entry, throttle=limit, throttle_asked=self.limit is not None)

    def told(self, entry: CatalogPartition) -> object:
        """Its throttle."""
        return entry.throttle


async def marked(
    cluster: Cluster, fleet: FleetName, link: Link, asked: str, wish: Wish
) -> list[Row]:
    """Ask this of TOPIC, or TOPIC-PARTITION, of the source; a row a partition.

    Raises: RefusedError, and nothing is written, where the fleet copies no such thing;
    OutdatedError and FencedError when others write all the time; MirrorfleetError: no answer.
    """
    for _ in range(_TRIES - 1):
        with suppress(OutdatedError, FencedError):
            return await _mark(cluster, fleet, link, asked, wish)
    return await _mark(cluster, fleet, link, asked, wish)


async def _mark(
    cluster: Cluster, fleet: FleetName, link: Link, asked: str, wish: Wish
) -> list[Row]:
    store = Store(cluster, fleet, SystemClock())
    try:
        await store.refresh()
        found = meant(store.book.partitions.values(), link, asked)
        heeded = [(entry, wish.heeded(entry)) for entry in found]
        await store.publish([now for before, now in heeded if now != before])
    finally:
        store.close()
    return [_row(before, wish.told(before), wish.told(now)) for before, now in heeded]


def meant(
    entries: Iterable[CatalogPartition], link: Link, asked: str
) -> Sequence[CatalogPartition]:
    """What the link copies of TOPIC, or of TOPIC-PARTITION, as `named`.

    Raises: RefusedError.
    """
    copied = [e for e in entries if e.link == link and e.state is not CatalogState.REMOVED]
    found = named(copied, asked)
    if not found:
        bare = without_partition(asked)
        numbers = sorted(e.identity.partition for e in copied if e.source_topic == bare)
        hint = f"It has partitions {numbers[0]} to {numbers[-1]}." if numbers else _SEE
        raise RefusedError(f"{link} copies no {asked}.", hint=hint.format(link.target))
    return sorted(found, key=lambda entry: entry.identity.partition)


def _row(entry: CatalogPartition, before: object, now: object) -> Row:
    topic, partition = entry.source_topic, entry.identity.partition
    return {"topic": topic, "partition": partition, "before": before, "now": now}
