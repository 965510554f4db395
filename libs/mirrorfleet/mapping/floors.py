"""Where the logs of copies begin, asked of both clusters: below that the map may be forgotten.

Of partitions that were removed, too: else what was known of them would be kept for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets, told
from mirrorfleet.mapping.live import sides_seen
from mirrorfleet.offsets.floors import LostTopics, Seen
from mirrorfleet.offsets.packing import GONE, Floor
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mirrorfleet.core.ids import ClusterAlias, PartitionIdentity, TopicPartition
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

_log = logger(__name__)


class LogFloors:
    """Looks, one after the other, at the logs of a fleet's copies."""

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._lost: dict[ClusterAlias, LostTopics] = {}

    async def look(
        self, sources: Mapping[ClusterAlias, Cluster], entries: Iterable[CatalogPartition]
    ) -> dict[PartitionIdentity, Floor]:
        """The floors of partitions, copied or removed; what does not answer is left out.

        So are the partitions of a source that is away, or whose alias means another cluster now.
        """
        found: dict[PartitionIdentity, Floor] = {}
        by_source: dict[ClusterAlias, list[CatalogPartition]] = {}
        for entry in entries:
            by_source.setdefault(entry.link.source, []).append(entry)
        before, self._lost = self._lost, {}
        for alias, wanted in by_source.items():
            if alias in sources:
                lost = before.get(alias) or LostTopics()
                try:
                    found |= await self._of(sources[alias], wanted, lost)
                except MirrorfleetError as error:
                    said = fields(source=alias, error=str(error))
                    _log.warning("where its logs begin is not known", extra=said)
                else:
                    self._lost[alias] = lost
        return found

    async def _of(
        self, source: Cluster, entries: Iterable[CatalogPartition], lost: LostTopics
    ) -> dict[PartitionIdentity, Floor]:
        if not source.cluster_id:
            await source.open()
        wanted = [entry for entry in entries if entry.identity.source_cluster == source.cluster_id]
        known = lost.believed(wanted, await sides_seen(source, self._target, wanted))
        asked = [(entry, known[entry.identity]) for entry in wanted if entry.identity in known]
        here = await _begins(source, [one.source for one, at in asked if at.source is Seen.THERE])
        there = await _begins(
            self._target, [one.target for one, at in asked if at.target is Seen.THERE]
        )
        found: dict[PartitionIdentity, Floor] = {}
        for entry, sides in asked:
            one = GONE if sides.source is Seen.GONE else here.get(entry.source)
            other = GONE if sides.target is Seen.GONE else there.get(entry.target)
            if one is not None and other is not None:
                found[entry.identity] = Floor(SourceOffset(one), TargetOffset(other))
        return found


async def _begins(cluster: Cluster, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where logs begin, of those that are told."""
    return told(await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST)))
