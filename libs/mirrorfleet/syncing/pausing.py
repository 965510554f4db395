"""Topics, or partitions, that an operator has stand: the catalog says so, and `sync` keeps it.

    pause     nothing more is fetched; what was fetched is committed; position, map, groups stay
    resume    it goes on where it stopped, behind the last record that was committed

What a topic that stands as a whole gets later, a partition or another incarnation, stands as well.
What the source deletes meanwhile is a loss as any: the time until then is told as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

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


async def marked(
    cluster: Cluster, fleet: FleetName, link: Link, asked: str, state: CatalogState
) -> list[Row]:
    """Have TOPIC, or TOPIC-PARTITION, of the source stand or go on; a row a partition.

    Raises: RefusedError, and nothing is written, where the fleet copies no such thing;
    OutdatedError and FencedError when others write all the time; MirrorfleetError: no answer.
    """
    for _ in range(_TRIES - 1):
        with suppress(OutdatedError, FencedError):
            return await _mark(cluster, fleet, link, asked, state)
    return await _mark(cluster, fleet, link, asked, state)


async def _mark(
    cluster: Cluster, fleet: FleetName, link: Link, asked: str, state: CatalogState
) -> list[Row]:
    store = Store(cluster, fleet, SystemClock())
    try:
        await store.refresh()
        found = meant(store.book.partitions.values(), link, asked)
        await store.publish([replace(e, state=state) for e in found if e.state is not state])
    finally:
        store.close()
    return [_row(entry, state) for entry in found]


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


def _row(entry: CatalogPartition, now: CatalogState) -> Row:
    return {
        "topic": entry.source_topic,
        "partition": entry.identity.partition,
        "before": str(entry.state),
        "now": str(now),
    }
