"""Whether a stream of the progress topic brings what is written there.

Who listens to one that stands still would call every worker silent. The brokers are asked over
another connection where the partitions end; what that shows is `Hearing`'s to say.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import ConnectionLostError, MirrorfleetError
from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.core.names import control_topic
from mirrorfleet.records.overview import duration
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.watching.ends import EndsWatch

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.lagging.board import Board

LOOK_S: Final = 2.0
"""Between two looks at the ends."""


class StallWatch:
    """Tells the board's hearing where the partitions of its slots end."""

    def __init__(self, cluster: Cluster, fleet: FleetName, clock: Clock, board: Board) -> None:
        self._topic = control_topic(fleet, ControlKind.PROGRESS)
        self._board = board
        self._ends = EndsWatch(cluster, clock, self.ended)
        self._seen: set[SlotNumber] = set()
        """Of the look that is on its way."""

    def ended(self, tp: TopicPartition, end: int, at_ms: int) -> None:
        """A look found it there; when does not matter."""
        del at_ms
        slot = SlotNumber(tp.partition)
        self._seen.add(slot)
        self._board.hearing.ended(slot, end)

    async def run(self) -> None:
        """Look until nothing came for as long as a worker may be silent, though it spoke.

        Raises: ConnectionLostError then; the stream is to be begun anew.
        """
        limit_ms = self._board.limits.silent_ms
        looks = 1 + ceil(limit_ms / (LOOK_S * 1000))  # so many span the limit
        while True:
            await asyncio.sleep(LOOK_S)
            slots = self._board.slots
            self._seen.clear()
            with suppress(MirrorfleetError):  # what is not seen shows no stall
                await self._ends.look([TopicPartition(self._topic, at) for at in slots])
                await self._ends.look_at_refused()
            self._board.hearing.unseen(set(slots) - self._seen)
            stalled = self._board.hearing.stalled(looks)
            if stalled:
                where = ", ".join(f"{self._topic}-{slot}" for slot in sorted(stalled)[:3])
                silent = duration(limit_ms)
                raise ConnectionLostError(f"for {silent} nothing came of what is written: {where}")
