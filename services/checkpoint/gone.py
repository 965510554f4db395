"""Groups that both sides have lost: nothing has to be remembered of them any more.

Only an answer says that a group has no offsets: one that is not listed may be hidden from us.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING, Final

from mirrorfleet.kafka.groups import fetch_offsets

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

A_LOOK: Final = 200
"""Groups that are asked for at one look."""


class GoneGroups:
    """Finds them, some at a look. Whoever has offsets or is refused is asked for once."""

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._clusters = (source, target)
        self._kept: set[str] = set()

    async def among(
        self, known: AbstractSet[str], listed: AbstractSet[str], *, deadline_s: float
    ) -> frozenset[str]:
        """Of what is remembered, groups that no side lists and that have no offsets on either.

        Raises: as `fetch_offsets`.
        """
        self._kept -= listed
        asked = frozenset(islice(known - listed - self._kept, A_LOOK))
        gone = asked
        for cluster in self._clusters:
            if gone:
                found = await fetch_offsets(cluster, sorted(gone), once=True, deadline_s=deadline_s)
                gone = frozenset(group for group in gone if found[group] == {})
        self._kept |= asked - gone
        return gone
