"""The ends of many source partitions, looked at again and again without one delaying another."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

ANSWER_S: Final = 3.0
"""Longer than a broker takes for thousands of partitions; a lost one must not stop the others."""
DOUBT_S: Final = 30.0
"""Between two looks for leaders in any case: one that its cluster has lost, and we have not, would
say for ever that the end stands still."""

OnEnd = Callable[[TopicPartition, int, int], None]
"""Partition, last stable offset, and when (ms of the wall clock) it was there."""


class EndsWatch:
    """Last stable offsets of partitions of one cluster.

    A partition that gives no answer (no leader, deleted, not allowed) is asked apart from the
    others from then on, until it answers: waiting for it must not make their ends old.
    """

    def __init__(self, cluster: Cluster, clock: Clock, on_end: OnEnd) -> None:
        self._cluster, self._clock, self._on_end = cluster, clock, on_end
        self.refused: dict[TopicPartition, BrokerError] = {}
        """Partitions that gave no answer the last time, and why."""
        self._doubted_at = -math.inf

    async def look(self, wanted: Collection[TopicPartition]) -> int:
        """Ask once for each of `wanted` that answered before; how many answered now.

        Raises: DeadlineError, ConnectionLostError when no broker answered, AuthenticationError,
        UnsupportedError.
        """
        for gone in self.refused.keys() - set(wanted):
            del self.refused[gone]
        now = self._clock.monotonic()
        if now - self._doubted_at >= DOUBT_S:
            self._doubted_at = now
            for topic in {tp.topic for tp in wanted}:
                self._cluster.forget_leaders(topic)
        return await self._ask([tp for tp in wanted if tp not in self.refused])

    async def look_at_refused(self) -> int:
        """Ask once for those that gave no answer; as `look`."""
        return await self._ask(list(self.refused))

    async def _ask(self, wanted: list[TopicPartition]) -> int:
        if not wanted:
            return 0
        # leaders first: the time that it takes to find them must not make the ends look older
        await self._cluster.leaders(wanted, deadline_s=ANSWER_S)
        begun = self._clock.now_ms()
        found = await list_offsets(
            self._cluster,
            dict.fromkeys(wanted, LATEST),
            isolation=Isolation.READ_COMMITTED,
            deadline_s=ANSWER_S,
        )
        ended = self._clock.now_ms()
        # the broker looked somewhere between; a slow answer is as old as its question
        at_ms = (begun + ended) // 2
        answered = 0
        for tp, end in found.items():
            if isinstance(end, BrokerError):
                self.refused[tp] = end
            else:
                self.refused.pop(tp, None)
                self._on_end(tp, end.offset, at_ms)
                answered += 1
        return answered
