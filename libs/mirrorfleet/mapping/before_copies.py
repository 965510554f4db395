"""Whether anything lies before the first record of a copy, asked of the target once.

The map knows committed records only. A copy whose first transactions were aborted begins behind
them, as one does that begins behind records of others; but there is nothing that a group may lack.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import PartitionIdentity, TargetOffset, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.stored import first_committed
from mirrorfleet.offsets.late import FirstCopied, LateCopies
from mirrorfleet.records.checkpoint import Checkpoint


class BeforeCopies:
    """Remembers what was found: behind a record that was copied nothing comes before it any more.

    Retention takes what is there, so what was found counts while the log begins at or before it.
    """

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._found: dict[tuple[PartitionIdentity, TargetOffset], int | None] = {}
        self._silent: tuple[LateCopies | None, set[TopicPartition]] = (None, set())
        """Who did not answer in one look: not asked again in it."""

    async def late(
        self, copies: LateCopies, points: Iterable[Checkpoint]
    ) -> dict[TopicPartition, int]:
        """Of `copies.among(points)` those with a committed record before their first copied one.

        One that gives no answer, for whatever reason, counts as late until the next look: its
        groups alone are to wait for that.
        """
        if self._silent[0] is not copies:
            self._silent = (copies, set())
        found: dict[TopicPartition, int] = {}
        for at, start in copies.among(points).items():
            first = copies.first(at)
            if first is not None and await self._has_others(at, first, start):
                found[at] = start
        return found

    async def _has_others(self, at: TopicPartition, first: FirstCopied, start: int) -> bool:
        about, (_, silent) = (first.identity, first.target), self._silent
        if about in self._found:
            known = self._found[about]
            if known is None or known >= start:
                return known is not None
        if at in silent:
            return True
        try:
            seen = await first_committed(self._target, at, start, first.target)
        except MirrorfleetError:
            silent.add(at)
            return True
        # a fetch gives more than was asked for
        self._found[about] = seen if seen is not None and seen < first.target else None
        return self._found[about] is not None
