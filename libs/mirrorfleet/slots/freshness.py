"""Whether metadata is younger than a question about it, asked by who copies meanwhile.

The first time that is waited for, for a moment: a side that is away must keep no slot from copying
on, nor from hearing that it is to stop. After that whoever keeps the table renews it, and to ask
again costs nothing.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError

if TYPE_CHECKING:
    from collections.abc import Collection

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.slots.leaders import Leaders

WAIT_S: Final = 2.0
"""All partitions of the slot stand meanwhile."""


class Freshness:
    """The open questions of one slot, by why they are asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, dict[PartitionIdentity, float]] = {}
        """When each was asked for the first time (monotonic seconds)."""

    async def is_younger(
        self, leaders: Leaders, why: str, about: Collection[PartitionIdentity]
    ) -> bool:
        """Whether the table was renewed since `why` was asked of the last of these partitions.

        That ends the question. One of a partition that is not asked for any more ends, too.
        """
        before, now = self._since.pop(why, {}), self._clock.monotonic()
        self._since[why] = {one: before.get(one, now) for one in about}
        if self._since[why].keys() - before.keys():
            with suppress(MirrorfleetError, TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await leaders.renewed()
            if not self.may_be(leaders, why, about):
                leaders.ask()
        is_younger = self.may_be(leaders, why, about)
        if is_younger:
            del self._since[why]
        return is_younger

    def may_be(self, leaders: Leaders, why: str, about: Collection[PartitionIdentity]) -> bool:
        """Whether it makes sense to ask: for the first time, or because it is younger now."""
        since = self._since.get(why, {})
        return all(since.get(one, -math.inf) <= leaders.as_of for one in about)
