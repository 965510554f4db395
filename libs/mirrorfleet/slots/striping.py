"""Old backlog from a broker far away: several connections for one slot, the ranges in order.

One connection brings at most a socket buffer per round trip. Here each connection asks for a piece
of offsets of its own (`copying/stripes`), without a fetch session: a session would be one more
thing to keep at the broker for every connection, and every request is about another piece anyway.
Their number is found by measuring: twice as many as long as that brings more. Whether the broker
is there is for the first of them to find out: where a further one cannot be made the others go on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.budget import FrameLease
from mirrorfleet.copying.fan import Appetite, Booking, Fan
from mirrorfleet.copying.limits import FarLine
from mirrorfleet.copying.partition import CopyPartition, Pace, SourceEnds
from mirrorfleet.copying.stripes import Part, Piece, Stripes
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import MirrorfleetError, ungrouped
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchLane
from mirrorfleet.kafka.low_water import FAR_S
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import replicas
from mirrorfleet.slots.arrivals import UNREADABLE, refused, unreadable_ahead
from mirrorfleet.slots.far import most_connections, point_of
from mirrorfleet.slots.in_order import InOrder
from mirrorfleet.slots.waits import ANSWER_S, reserved

if TYPE_CHECKING:
    from mirrorfleet.copying.budget import Account
    from mirrorfleet.kafka.connection import Connection
    from mirrorfleet.slots.leaders import LeaderAt
    from mirrorfleet.slots.runner import SlotRunner

IDLE_S: Final = 10.0
MEASURED_S: Final = 1.0
"""Between two looks at the rate; many round trips even between continents."""
LOOK_S: Final = 0.05
MORE_S: Final = 30.0
"""After so long more connections are tried than the broker took: it may have been busy, and a
backlog takes hours. Where it has a limit (`max.connections.per.ip`) they are for nothing."""
FRUITLESS: Final = 3
"""Answers in a row with nothing, though the broker has not asked to wait: the end of a piece is not
there any more. One alone may be of a slow remote tier (KIP-405)."""
QUEUE_SHARE: Final = 2
"""Of the memory of the process that one partition's queue may have: pieces come in bursts, when the
one in turn is there, and none asked for in the meantime would cost a round trip each time."""

_log = logger(__name__)


class StripedLane:
    """All connections of one slot to one broker far away, for partitions that catch up."""

    def __init__(self, runner: SlotRunner, node: int, rtt_s: float) -> None:
        self._runner, self._node = runner, node
        self._memory: dict[CopyPartition, Account] = {}
        self._stripes = Stripes(runner.settings.partition_fetch_bytes)
        most = most_connections(runner)
        self._booking = Booking(rtt_s)
        self._order = InOrder(runner, self._stripes, self._booking.weight, self._keeps)
        self._line = FarLine(rtt_s, 0, most, is_capped=most < runner.settings.fetch_connections)
        self._table = runner.seats.at(node, most)
        self._share = self._table.join()
        self._fan = Fan(most, rtt_s)
        self._connections = self._fetching = 0
        self._appetite = Appetite()
        self._looking = asyncio.Lock()
        self._more_at, self._refusal, self._misses = 0.0, "", False
        self._received, self._worked_at = 0, runner.clock.monotonic()

    @property
    def answered(self) -> bool:
        """Whether the broker has answered at all."""
        return self._received > 0

    async def run(self, first: Connection) -> None:
        """Fetch until no partition is left for a while; the caller closes `first`.

        Raises: MirrorfleetError when any connection is lost that was made.
        """
        lines = self._runner.limits.lines
        lines[self._node] = self._line
        self._share.wanted = self._fan.count - 1
        self._fit(max(self._fan.count, self._table.expected))
        try:
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    self._start(group, first)
                    await self._steer(group)
        finally:
            self._stripes.keep(lambda _: False)
            lines.pop(self._node, None)
            self._table.leave(self._share)

    def _start(self, group: asyncio.TaskGroup, connection: Connection | None) -> None:
        self._connections += 1
        name = f"stripe:{self._runner.number}:{self._node}:{self._connections}"
        task = group.create_task(self._serve(connection), name=name)
        if connection is None:
            # Not by the task itself: one that is cancelled before its first step does nothing.
            task.add_done_callback(lambda _: self._share.give_back())

    def _may_start(self) -> bool:
        """Whether another connection is wanted, and the broker's share of them has room."""
        is_wanted = self._connections < self._fan.count and not self._appetite.has_nothing
        self._misses = is_wanted and not self._share.take()
        self._line.is_crowded = self._misses and self._table.is_wide
        return is_wanted and not self._misses

    async def _steer(self, group: asyncio.TaskGroup) -> None:
        """Measure, and open connections; ends when there was nothing to do for a while."""
        clock = self._runner.clock
        before, since = self._received, clock.monotonic()
        while not self._is_over:
            while self._may_start():
                self._start(group, None)
            self._appetite.served()
            await self._runner.room(LOOK_S)
            now = clock.monotonic()
            self._appetite.looked(waits=self._looking.locked())
            if now - since >= MEASURED_S:
                self._measured((self._received - before) / (now - since))
                before, since = self._received, now

    def _measured(self, bytes_s: float) -> None:
        """One more second, in which the line brought so many bytes."""
        self._line.bytes_s, self._line.connections = bytes_s, self._connections
        self._line.rtt_s = self._booking.rtt_s
        now = self._runner.clock.monotonic()
        if now >= self._more_at:
            self._more_at = now + MORE_S
            self._fan.relax()
        is_slow = self._booking.is_slow
        if is_slow and self._misses:
            self._table.widen()
        if not self._appetite.is_starved:
            self._fan.measured(bytes_s)
        elif is_slow and self._appetite.is_full:
            self._fan.crowded(bytes_s)
        self._share.wanted = max(0, self._appetite.wish(self._fan.count, self._fetching) - 1)
        self._memory = {at: its for at, its in self._memory.items() if its.held}
        self._fit(max(self._connections, self._table.expected))

    def _fit(self, connections: int) -> None:
        """Pieces as small as it takes for each connection to have one, within the memory."""
        self._stripes.fit(self._booking.within(self._runner.budget.for_one) // max(1, connections))

    @property
    def is_near(self) -> bool:
        """Whether the broker was busy when it seemed to be far away: one answer says so."""
        return self._booking.rtt_s < FAR_S

    @property
    def _is_over(self) -> bool:
        """Whether it is near, or nothing is on the way for longer than an answer may take."""
        idle_s = self._runner.clock.monotonic() - self._worked_at
        return self.is_near or (not self._fetching and idle_s > IDLE_S)

    async def _serve(self, connection: Connection | None) -> None:
        """One connection: piece after piece, each to its end."""
        opened = connection
        try:
            if opened is None:
                opened = await self._another()
            if opened is None:
                return
            lane = FetchLane(opened, deadline_s=ANSWER_S, in_session=False)
            while self._is_of_use(connection):
                piece = self._next() or await self._sought(connection)
                if piece is not None:
                    await self._work(lane, piece)
        finally:
            self._connections -= 1
            if connection is None and opened is not None:
                opened.close()

    async def _another(self) -> Connection | None:
        """One more connection; None where it cannot be made: those that there are go on."""
        purpose = f"fetch-{self._runner.number}-striped"
        try:
            connection = await self._runner.source.connect(self._node, purpose=purpose)
            self._booking.seen(connection.rtt_s)
            return connection
        except MirrorfleetError as error:
            # Others are being made yet: each that fails as well makes it one less.
            self._fan.limit(self._connections - 1)
            self._more_at = self._runner.clock.monotonic() + MORE_S
            if str(error) != self._refusal:
                self._refusal = str(error)
                _log.info("no further connection", extra=fields(error=self._refusal))
            return None

    def _is_of_use(self, connection: Connection | None) -> bool:
        """Whether one goes on; `connection` is the first one, or None for one that has a seat: the
        first one costs no seat, so it is the last to end.
        """
        if self._is_over:
            return False
        if connection is not None:
            return True
        return self._connections <= self._fan.count and not self._share.has_too_many

    async def _sought(self, connection: Connection | None) -> Piece | None:
        """For one that found nothing: a piece, or None when it has waited a little for one.

        One at a time looks and waits, the next one when that has a piece: a bell would wake all of
        them, each to go through all partitions.
        """
        self._appetite.found_nothing()
        async with self._looking:
            if not self._is_of_use(connection):
                return None
            piece = self._next()
            if piece is None:
                await self._runner.room(LOOK_S)
            return piece

    async def _work(self, lane: FetchLane, piece: Piece) -> None:
        self._fetching += 1
        self._appetite.fetches(self._fetching)
        try:
            await self._fetch_piece(lane, piece)
        finally:
            self._fetching -= 1
            self._worked_at = self._runner.clock.monotonic()

    def _next(self) -> Piece | None:
        """A piece of a partition of ours; pieces of partitions that went elsewhere are dropped."""
        found: dict[CopyPartition, LeaderAt] = {}
        for partition in self._wanted():
            at = self._at(partition)
            if at is not None:
                found[partition] = at
                self._stripes.of_epoch(partition, at.epoch)
        self._stripes.keep(self._keeps)
        piece = self._stripes.next(list(found), self._room_for)
        if piece is None:  # of what is throttled memory has room
            unbound = [each for each in found if each.entry.throttle is None]
            self._appetite.is_full = self._stripes.has_more(unbound)
        else:
            at = found[piece.partition]
            piece.leader_epoch = at.epoch
            piece.epoch = replicas.epoch_of(piece.partition, at)
        return piece

    def _heed_leader(self, partition: CopyPartition) -> None:
        """What a leader before said is asked again: two histories may part, and only a question
        with the epoch of what is there already shows it.
        """
        leader = replicas.leader_of(self._runner, partition)
        if leader is not None:
            self._stripes.of_epoch(partition, leader.epoch)

    def _wanted(self) -> list[CopyPartition]:
        runner = self._runner
        room = runner.budget.limit // QUEUE_SHARE
        return runner.slot.wanted(Pace.CATCH_UP, runner.clock.monotonic(), room)

    def _room_for(self, partition: CopyPartition) -> int:
        """Bytes to ask for; of a throttled partition a second's worth may be under way."""
        room = self._booking.within(self._runner.budget.room_for(self._memory_of(partition)))
        throttle = partition.entry.throttle
        if throttle is None:
            return room
        most = self._runner.settings.partition_fetch_bytes
        return min(room, throttle - self._stripes.on_the_way(partition) * most)

    def _keeps(self, partition: CopyPartition) -> bool:
        """Whether its pieces are still of use; a full queue is no reason to drop them."""
        catching_up = partition.pace is Pace.CATCH_UP and partition.fault is None
        ours = self._runner.slot.partitions.get(partition.identity) is partition
        return ours and catching_up and self._at(partition) is not None

    def _at(self, partition: CopyPartition) -> LeaderAt | None:
        """Where it is fetched from, if that is our broker."""
        now = self._runner.clock.monotonic()
        at = replicas.fetched_from(self._runner, partition, now)
        return at if at is not None and at.node == self._node else None

    async def _fetch_piece(self, lane: FetchLane, piece: Piece) -> None:
        memory = self._memory_of(piece.partition)
        booked = self._booking.of(piece.ask_bytes)  # there was room when the piece was made
        await reserved(memory, booked)
        if piece.stale:
            memory.release(booked)
            return
        fruitless = 0
        while fruitless < FRUITLESS:
            at = piece.at
            fetched, lease = await self._ask(lane, piece, memory, booked)
            try:
                self._heed_leader(piece.partition)
                if not piece.stale:
                    await self._arrived(piece, fetched, lease)
            finally:
                lease.done()
            if piece.whole or piece.stale:
                return
            if self._is_left(piece):
                self._stripes.cut(piece)
                return
            fruitless = 0 if piece.at > at or fetched.throttle_ms else fruitless + 1
            if fruitless < FRUITLESS:
                # The rest, a piece at most, must not wait for memory that those behind it hold.
                booked = self._booking.of(piece.ask_bytes)
                memory.resize(0, booked)
        self._ask_anew(piece.partition)

    def _is_left(self, piece: Piece) -> bool:
        """Whether the rest of it is for later: its queue is full, it is paused, or others are more
        urgent. With pieces on the way behind it that would throw away more than it spares.
        """
        partition = piece.partition
        is_alone = self._stripes.on_the_way(partition) == 1 and piece.at == partition.walked_to
        return is_alone and partition not in self._wanted()

    def _ask_anew(self, partition: CopyPartition) -> None:
        """The source ends before where we thought: nobody here would ever hear the true end."""
        self._stripes.drop(partition)
        partition.ask_anew()
        self._runner.reroute()

    def _memory_of(self, partition: CopyPartition) -> Account:
        """Each partition has its own, or the one with most pieces would keep the others waiting."""
        account = self._memory.get(partition)
        if account is None:
            account = self._memory[partition] = self._runner.budget.account()
        return account

    async def _ask(
        self, lane: FetchLane, piece: Piece, memory: Account, booked: int
    ) -> tuple[Fetched, FrameLease]:
        """One answer; what was booked for it is its real size afterwards, which the lease has."""
        runner, size = self._runner, piece.ask_bytes
        asked_at = runner.clock.monotonic()
        point = point_of(piece)
        lane.want(point)
        lane.rack = replicas.rack_told(runner, self._node)
        try:
            fetched = await lane.fetch(
                max_bytes=size, min_bytes=1, max_wait_ms=runner.settings.fetch_wait_ms
            )
        except BaseException:
            memory.release(booked)
            raise
        finally:
            lane.forget(point.topic_id, point.partition, point.topic)
        got = len(fetched.buffer)
        took_s = runner.clock.monotonic() - asked_at
        if piece.at == piece.first:  # the rest of one is less, and quick on any line
            self._stripes.timed(took_s)
        self._booking.timed(took_s)
        kept = self._booking.weight.of(got)  # until it is walked, which may be later
        memory.resize(booked, kept)
        self._received += got
        runner.meters.fetched.value += got
        return fetched, FrameLease(memory, got, asked_at, spare=kept - got)

    async def _arrived(self, piece: Piece, fetched: Fetched, lease: FrameLease) -> None:
        runner, partition = self._runner, piece.partition
        for part in fetched.partitions:
            if part.is_refused:
                self._refused(piece, part)
                return
            if part.preferred_replica >= 0:  # and no records: it is fetched elsewhere now
                self._stripes.drop(partition)
                now = runner.clock.monotonic()
                replicas.prefer(runner, partition, part.preferred_replica, now)
                return
            await self._take(piece, part, fetched, lease)
        runner.wake()

    def _refused(self, piece: Piece, part: FetchedPartition) -> None:
        """Of what is behind the piece in turn a refusal is no word on our position."""
        runner, partition = self._runner, piece.partition
        is_ahead = piece.at > partition.walked_to
        if is_ahead and part.error in UNREADABLE and partition.replica != self._node:
            self._stripes.cut(piece)
            unreadable_ahead(runner, partition, piece.at, part.error)
            return
        self._stripes.drop(partition)
        if part.error is not ErrorCode.OFFSET_OUT_OF_RANGE or not is_ahead:
            refused(runner, partition, part, self._node)
        elif not replicas.refused(runner, partition, self._node, runner.clock.monotonic()):
            self._ask_anew(partition)

    async def _take(
        self, piece: Piece, found: FetchedPartition, fetched: Fetched, lease: FrameLease
    ) -> None:
        partition = piece.partition
        if found.high_watermark >= partition.source.high_watermark:
            partition.source = SourceEnds.of(found)
        lease.hold()
        taken = found.start, found.end, found.aborted
        part = Part(piece.at, fetched.buffer, *taken, lease, piece.epoch)
        self._stripes.answered(piece, part)
        await self._order.deliver(partition)
