"""Fetching for one slot: a connection and a fetch session per source broker and pace.

Live tail and old backlog never share a connection. A lane survives lost connections and ends when
no partition of its broker and pace is left. What it reads goes into the slot at once; what was
asked for before its partition was rewound is thrown away.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.budget import FrameLease, Weight
from mirrorfleet.copying.cadence import rest_s
from mirrorfleet.copying.partition import CopyPartition, Pace, SourceEnds
from mirrorfleet.copying.schedule import FetchWindow, backoff_s, commit_interval
from mirrorfleet.copying.starving import Starving
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchLane, FetchPoint
from mirrorfleet.slots import replicas
from mirrorfleet.slots.arrivals import deliver, refused
from mirrorfleet.slots.far import is_far
from mirrorfleet.slots.striping import StripedLane
from mirrorfleet.slots.waits import ANSWER_S, Turn, reserved

if TYPE_CHECKING:
    from mirrorfleet.core.ids import SourceOffset
    from mirrorfleet.kafka.connection import Connection
    from mirrorfleet.slots.leaders import LeaderAt
    from mirrorfleet.slots.runner import SlotRunner

LEAST_FETCH: Final = 256 << 10
LEAST_POLL: Final = 16 << 10
"""The least of the live tail: a producer's batch (batch.size)."""
TURNS: Final = 4
"""Answers with much to keep for each byte that share the memory of one backlog: the next one is
asked for while the target takes the others."""
IDLE_LANE_S: Final = 10.0
"""A lane without partitions keeps its connection this long: pace and leaders change back often."""


class LaneKey(NamedTuple):
    """Which broker, and live tail or old backlog."""

    node: int
    pace: Pace


class _Asked(NamedTuple):
    """What a session was told of a partition, and how often that had been rewound by then."""

    rewinds: int
    offset: SourceOffset
    at: LeaderAt
    epoch: int
    """As `replicas.epoch_of`, which may be another one when the answer comes."""


class Lanes:
    """The fetch lanes of one slot."""

    def __init__(self, runner: SlotRunner, group: asyncio.TaskGroup) -> None:
        self._runner = runner
        self._group = group
        self._running: dict[LaneKey, asyncio.Task[None]] = {}
        self._is_over = False

    async def keep(self) -> None:
        """Start a lane wherever a partition needs one; runs until cancelled, and no lane longer."""
        try:
            while True:
                for key in self._needed():
                    task = self._running.get(key)
                    if task is None or task.done():
                        name = f"fetch:{self._runner.number}:{key.node}:{key.pace}"
                        self._running[key] = self._group.create_task(self._lane(key), name=name)
                await self._runner.routes_changed(1.0)
        finally:
            self._is_over = True

    def _needed(self) -> set[LaneKey]:
        now = self._runner.clock.monotonic()
        needed = set()
        for pace in Pace:
            for partition in self._runner.slot.wanted(pace, now):
                at = replicas.fetched_from(self._runner, partition, now)
                if at is not None:
                    needed.add(LaneKey(at.node, pace))
        return needed

    def _serves(self, key: LaneKey) -> bool:
        """Whether anything is fetched from this broker still."""
        now = self._runner.clock.monotonic()
        partitions = self._runner.slot.partitions.values()
        found = (replicas.fetched_from(self._runner, partition, now) for partition in partitions)
        return any(at is not None and at.node == key.node for at in found)

    async def _lane(self, key: LaneKey) -> None:
        failures, starving = 0, Starving()
        while not self._is_over and self._serves(key):
            lane = _Lane(self._runner, key)
            try:
                await lane.run()
                return
            except MirrorfleetError as error:
                starving.failed(error, self._runner.clock.monotonic(), answered=lane.answered)
                failures = 1 if lane.answered else failures + 1
                self._runner.reach.lost(key.node)
                replicas.leave(self._runner, key.node)
                self._runner.source_trouble(error)
            # Striped connections that fail in the moment in which the slot ends tell of the failure
            # alone (`TaskGroup` of CPython 3.11): the loop must see the end by itself.
            await asyncio.sleep(backoff_s(failures, self._runner.dice.uniform(0, 1)))


class _Lane:
    """One connection's life."""

    def __init__(self, runner: SlotRunner, key: LaneKey) -> None:
        self._runner = runner
        self._key = key
        self._window = FetchWindow(LEAST_FETCH, runner.settings.fetch_max_bytes)
        self._memory, self._weight = runner.budget.account(), Weight()
        self._asked: dict[CopyPartition, _Asked] = {}
        """What is in the session."""
        self.answered = False
        self._asked_at, self._asked_bytes, self._answered_bytes = -inf, 0, 0

    async def run(self) -> None:
        """Fetch until no partition is left for a while.

        Raises:
            MirrorfleetError: the connection is lost or was never made.
        """
        purpose = f"fetch-{self._runner.number}-{self._key.pace}"
        connection = await self._runner.source.connect(self._key.node, purpose=purpose)
        self._runner.reach.found(self._key.node)
        try:
            if self._key.pace is Pace.CATCH_UP and await is_far(connection):
                striped = StripedLane(self._runner, self._key.node, connection.rtt_s)
                try:
                    await striped.run(connection)
                finally:
                    self.answered = striped.answered
                if not striped.is_near:
                    return
            await self._fetch_all(connection)
        finally:
            connection.close()

    async def _fetch_all(self, connection: Connection) -> None:
        clock = self._runner.clock
        lane = FetchLane(connection, deadline_s=ANSWER_S)
        idle_since: float | None = None
        while True:
            await self._rest()
            if self._point(lane):
                idle_since = None
                await self._fetch_once(lane)
                continue
            now = clock.monotonic()
            idle_since = now if idle_since is None else idle_since
            if now - idle_since > IDLE_LANE_S:
                return
            await self._runner.room(0.05)

    def _point(self, lane: FetchLane) -> bool:
        """Tell the session what to fetch from where; False when there is nothing."""
        runner = self._runner
        now, before = runner.clock.monotonic(), self._asked
        wanted: dict[CopyPartition, _Asked] = {}
        points: list[FetchPoint] = []
        kept = 0
        most = runner.settings.partition_queue_bytes
        for partition in runner.slot.wanted(self._key.pace, now, most):
            at = replicas.fetched_from(runner, partition, now)
            if at is None or at.node != self._key.node:
                continue
            asked, to = before.get(partition), partition.walked_to
            kept += asked is not None
            epoch = at.epoch if partition.replica is None else replicas.epoch_of(partition, at)
            if asked is None or asked != (partition.rewinds, to, at, epoch):
                asked = _Asked(partition.rewinds, to, at, epoch)
                points.append(self._point_of(partition, at))
            wanted[partition] = asked
        if kept < len(before):
            for partition in before.keys() - wanted.keys():
                lane.forget(partition.identity.source_topic_id, partition.identity.partition)
        for point in points:  # a partition's next incarnation has the place of the one before
            lane.want(point)
        self._asked = wanted
        return bool(wanted)

    def _point_of(self, partition: CopyPartition, at: LeaderAt) -> FetchPoint:
        identity = partition.identity
        return FetchPoint(
            topic=partition.entry.source_topic,
            topic_id=identity.source_topic_id,
            partition=identity.partition,
            offset=partition.walked_to,
            leader_epoch=at.epoch,
            last_fetched_epoch=partition.walked_epoch,
            max_bytes=self._most_of(partition),
        )

    def _most_of(self, partition: CopyPartition) -> int:
        """What one answer may bring of it: of a throttled one a second's worth."""
        most = self._runner.settings.partition_fetch_bytes
        return min(most, partition.entry.throttle or most)

    def _size(self) -> int:
        """What to reserve. The live tail is mostly waited for; when it comes, each answer may bring
        twice as much as the one before.
        """
        weight, window = self._weight, self._window.size
        most = max(window, self._memory.budget.for_one // TURNS)
        size = self._memory.within(min(weight.of(window), most), LEAST_FETCH)
        if self._key.pace is Pace.LIVE:
            expected = max(LEAST_POLL, weight.of(2 * self._answered_bytes))
            size = self._memory.enough(size, expected)
        return size

    async def _fetch_once(self, lane: FetchLane) -> None:
        runner = self._runner
        size = self._size()
        self._asked_bytes = asks = self._weight.within(size)
        if await reserved(self._memory, size) and not self._point(lane):
            self._memory.release(size)  # nothing is wanted any more
            return
        self._asked_at = asked_at = runner.clock.monotonic()
        lane.rack = replicas.rack_told(runner, self._key.node)
        try:
            fetched = await lane.fetch(
                max_bytes=asks, min_bytes=1, max_wait_ms=runner.settings.fetch_wait_ms
            )
        except BaseException:
            self._memory.release(size)
            raise
        got = len(fetched.buffer)
        spare = max(0, min(size, self._weight.of(got)) - got)
        self._memory.resize(size, got + spare)
        lease = FrameLease(self._memory, got, asked_at, spare=spare)
        try:
            self.answered = True
            self._answered_bytes = got
            self._window.answered(got, runner.clock.monotonic() - asked_at)
            self._weight.weighed(got, await self._deliver(fetched, lease))
        finally:
            lease.settled()
            lease.done()

    def _is_wanted(self, partition: CopyPartition) -> bool:
        """Whether it was asked for, and neither rewound nor stopped since; and of the leader that
        it has still, for what another one has may differ, which only a question to that one shows.
        """
        asked, leader = self._asked.get(partition), replicas.leader_of(self._runner, partition)
        if asked is None or asked.rewinds != partition.rewinds or partition.fault is not None:
            return False
        return leader is None or leader.epoch == asked.at.epoch

    def _heed_ends(self, partition: CopyPartition, part: FetchedPartition) -> None:
        """Of an answer that is thrown away because of a rewind: a session tells no ends twice."""
        asked, leader = self._asked.get(partition), replicas.leader_of(self._runner, partition)
        is_theirs = asked is not None and leader is not None and leader.epoch == asked.at.epoch
        if is_theirs and partition.source.last_stable < 0 and not part.is_refused:
            partition.source = SourceEnds.of(part)

    async def _rest(self) -> None:
        """Of the live tail small answers are not asked for at each record."""
        runner = self._runner
        if self._key.pace is Pace.LIVE:
            interval = commit_interval(runner.markers.per_round, runner.commits)
            left = self._asked_at - runner.clock.monotonic()
            small = min(self._window.size, 3 * self._asked_bytes)  # not what was cut off
            left += rest_s(interval, self._answered_bytes, small)
            if left > 0:
                await asyncio.sleep(left)

    async def _deliver(self, fetched: Fetched, lease: FrameLease) -> int:
        """Put an answer into the slot; what came of it takes so many bytes.

        Others have a turn between two partitions where that takes long.
        """
        runner, put_together = self._runner, 0
        turn = Turn(runner.clock)
        runner.meters.fetched.value += len(fetched.buffer)
        for part in fetched.partitions:
            partition = runner.slot.find(part.topic_id, part.partition)
            if partition is None:
                continue
            if not self._is_wanted(partition):
                self._heed_ends(partition, part)
                continue
            if part.is_refused:
                refused(runner, partition, part, self._key.node)
                continue
            if part.preferred_replica >= 0:
                now = runner.clock.monotonic()
                replicas.prefer(runner, partition, part.preferred_replica, now)
            epoch = self._asked[partition].epoch
            answer = Answer(part.start, part.end, SourceEnds.of(part), part.aborted, epoch)
            deliver(runner, partition, fetched.buffer, answer, lease)
            if turn.is_over:
                runner.wake()
                took = lease.took
                await turn.passed_on()
                put_together += lease.took - took  # by who sends it: that is not of the walk
        runner.wake()
        return lease.took - put_together
