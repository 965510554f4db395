"""A whole control topic followed for people: from its begin or from a time on, then for ever.

Unlike `PartitionTail`, on which correctness rests, a reader for people may jump: where records were
deleted under it, it goes on at the log's new begin. New partitions are found by and by, and so are
those that have no leader when it begins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, OffsetSpec, list_offsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control_reading import ControlRecord

LOOK_AGAIN_S: Final = 30.0
"""Between two looks for new partitions."""
LACKS_S: Final = 2.0
"""The same while some have no leader: who begins in an outage hears of the others meanwhile."""
LEADERS_S: Final = 5.0
"""They are waited for that long at first, and for `LACKS_S` then."""
DEAF_S: Final = 90.0
"""Who has not polled for so long cannot say that what is found then came just now. More than
lies between two looks of `sync` at its slowest, and little beside the hour that a request lives."""


class TopicTail:
    """One topic.

    `caught_up`: whether all that was there when we began to listen, or began again, is given out.
    """

    def __init__(
        self, cluster: Cluster, topic: str, clock: Clock, *, since_ms: int | None = None
    ) -> None:
        """`since_ms`: begin at the first record of this time or later; None: at the begin."""
        self._cluster = cluster
        self._topic = topic
        self._clock = clock
        self._first = EARLIEST if since_ms is None else OffsetSpec(since_ms)
        self._tail = PartitionTail(cluster, topic)
        self._ends: dict[int, int] = {}
        self._looked_at: float | None = None
        self._lacks: frozenset[int] = frozenset()
        """Partitions that could not be begun."""
        self._polled_at = math.inf
        """When the last poll that succeeded began."""

    @property
    def caught_up(self) -> bool:
        """See the class."""
        at = self._tail.next_offsets
        return self._looked_at is not None and all(
            at.get(number, 0) >= end for number, end in self._ends.items()
        )

    @property
    def unheard(self) -> frozenset[int]:
        """Partitions of which the last poll could bring nothing: no leader that we reach."""
        return self._lacks | self._tail.leaderless.keys()

    def came_ms(self, record: ControlRecord) -> int:
        """When a record came, by our clock: now, unless it was there before we listened, or may
        have come while nobody polled for `DEAF_S`.

        Then the broker's timestamp is all there is, and what is of our future is of now.
        """
        now_ms = self._clock.now_ms()
        if record.offset >= self._ends.get(record.partition, 0) and not self._was_deaf():
            return now_ms
        return min(record.timestamp, now_ms)

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()

    async def poll(self, *, deadline_s: float, max_wait_ms: int = 500) -> list[ControlRecord]:
        """The next records; none after `max_wait_ms` without any.

        Raises: BrokerError (UNKNOWN_TOPIC_OR_PARTITION, not allowed), DeadlineError,
        ConnectionLostError, AuthenticationError, CorruptBatchError.
        """
        now = self._clock.monotonic()
        again_s = LACKS_S if self._lacks else LOOK_AGAIN_S
        if self._looked_at is None or now - self._looked_at >= again_s:
            await self._look(min(deadline_s, LACKS_S if self._lacks else LEADERS_S))
            self._looked_at = self._clock.monotonic()
        if self._was_deaf():
            # what is there now came before we listen again, whichever poll brings it
            self._ends |= await self._listed(self._tail.next_offsets, LATEST, deadline_s)
        try:
            found = await self._tail.poll(deadline_s=deadline_s, max_wait_ms=max_wait_ms)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._begin(list(self._tail.out_of_range), EARLIEST, deadline_s)
            found = []
        self._polled_at = now
        return found

    def _was_deaf(self) -> bool:
        """Whether what is found may have lain there. A host can stand still in a poll, too."""
        return self._clock.monotonic() - self._polled_at >= DEAF_S

    async def _look(self, deadline_s: float) -> None:
        topic = await self._cluster.topic(self._topic, refresh=True)
        new = topic.partitions.keys() - self._tail.next_offsets.keys()
        there = new if self._looked_at is None else self._lacks & new
        for numbers, first in ((there, self._first), (new - there, EARLIEST)):
            if numbers:
                await self._begin(sorted(numbers), first, deadline_s)

    async def _begin(self, numbers: Collection[int], first: OffsetSpec, deadline_s: float) -> None:
        """Begin those that have a leader. Raises: BrokerError where none has, or of another reason;
        as `list_offsets`.
        """
        starts = await self._led(numbers, first, deadline_s)
        ends = await self._led(starts, LATEST, deadline_s)
        self._ends |= ends
        for number, end in ends.items():
            # no record of that time or later: -1
            self._tail.start(number, starts[number] if starts[number] >= 0 else end)
        self._lacks = self._lacks.union(numbers) - ends.keys()

    async def _led(
        self, numbers: Iterable[int], spec: OffsetSpec, deadline_s: float
    ) -> dict[int, int]:
        answers = await self._asked(numbers, spec, deadline_s)
        found = {n: each for n, each in answers.items() if not isinstance(each, BrokerError)}
        for error in (each for each in answers.values() if isinstance(each, BrokerError)):
            if not error.retriable or not (found or self._tail.next_offsets):
                raise error
        return found

    async def _listed(
        self, numbers: Iterable[int], spec: OffsetSpec, deadline_s: float
    ) -> dict[int, int]:
        """An offset of each partition. Raises: BrokerError of one; as `list_offsets`."""
        found: dict[int, int] = {}
        for number, offset in (await self._asked(numbers, spec, deadline_s)).items():
            if isinstance(offset, BrokerError):
                raise offset
            found[number] = offset
        return found

    async def _asked(
        self, numbers: Iterable[int], spec: OffsetSpec, deadline_s: float
    ) -> dict[int, int | BrokerError]:
        wanted = {TopicPartition(self._topic, number): spec for number in numbers}
        answers = await list_offsets(self._cluster, wanted, deadline_s=deadline_s)
        return {
            at.partition: each if isinstance(each, BrokerError) else each.offset
            for at, each in answers.items()
        }
