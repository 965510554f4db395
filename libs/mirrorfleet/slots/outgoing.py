"""What a sender has on its way: batches, requests without an answer, connections; why it aborts."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.copying.faults import Action
from mirrorfleet.copying.transaction import SpoiledError, TargetBehindError
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    may_not,
)
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.together import all_of
from mirrorfleet.slots.endings import control_of
from mirrorfleet.wire.rewrite import sequence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from mirrorfleet.copying.allowance import Allowance
    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry, ProduceLane
    from mirrorfleet.records.events import Event
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.wire.copybatch import CopyBatch


class AbortError(MirrorfleetError):
    """Raised when the transaction must be aborted; says why and for which batch."""

    retriable = True

    def __init__(
        self,
        message: str,
        action: Action = Action.ABORT,
        *,
        partition: CopyPartition | None = None,
        batch: CopyBatch | None = None,
        ack: ProduceAck | None = None,
        fault: Fault | None = None,
    ) -> None:
        super().__init__(message)
        self.action = action
        self.partition = partition
        self.batch = batch
        self.ack = ack
        self.fault = fault


class RetakeError(MirrorfleetError):
    """Raised when the slot must be fenced again and its memory read anew."""

    retriable = True


def refusal(runner: SlotRunner, item: Outgoing, ack: ProduceAck, action: Action) -> AbortError:
    """What a refused batch means, in words."""
    text = f"{ack.topic}-{ack.partition}: {ack.error.name} {ack.message or ''}".rstrip()
    if ack.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = may_not(runner.target_principal, "WRITE", f"Topic:{ack.topic}", runner.link.target)
    return AbortError(text, action, partition=item.partition, batch=item.batch, ack=ack)


def undone(error: TargetBehindError | SpoiledError) -> AbortError:
    """What must not be committed, and what stops its partition."""
    if isinstance(error, SpoiledError):
        return AbortError(str(error))
    return AbortError(str(error), partition=error.partition, fault=error.fault)


def acks_of(answer: asyncio.Future[list[ProduceAck]]) -> list[ProduceAck]:
    """The answer that has come. Raises: AbortError."""
    try:
        return answer.result()
    except (ConnectionLostError, DeadlineError) as error:
        raise AbortError(f"no answer to a produce request: {error}") from error


class ControlEntry(NamedTuple):
    """A batch of ours for a control topic."""

    at: TopicPartition
    batch: CopyBatch
    events: Sequence[Event] = ()
    """What of it is for the ledger, which has it once it is committed."""


class Outgoing(NamedTuple):
    """A batch in a request; `partition` is None for control records."""

    partition: CopyPartition | None
    batch: CopyBatch
    entry: ProduceEntry

    @property
    def at(self) -> TopicPartition:
        """Where it goes."""
        return TopicPartition(self.entry.topic, self.entry.partition)

    @property
    def sequence(self) -> int:
        """The sequence of its first record."""
        return sequence_of(self.entry.header)


class Flight(NamedTuple):
    """A request without an answer yet."""

    answer: asyncio.Future[list[ProduceAck]]
    items: list[Outgoing]


def _size(items: Sequence[Outgoing]) -> int:
    return sum(item.batch.size for item in items)


@dataclass(slots=True)
class Pipe:
    """The slot's connection to one target broker."""

    lane: ProduceLane
    allowance: Allowance
    clock: Clock
    flights: deque[Flight] = field(default_factory=deque)
    unanswered: int = 0
    opened: bool = False
    """Whether the broker has accepted a request of the current transaction."""
    _asked: deque[tuple[float, list[Outgoing]]] = field(default_factory=deque)
    _claim: tuple[int, float] = (0, 0.0)
    """Bytes about to be sent, and since when they take up room."""

    def claim(self, items: Sequence[Outgoing]) -> None:
        """Take up room for what is about to be sent."""
        self._claim = (_size(items), self.clock.monotonic())
        self.allowance.sent(*self._claim)

    def unclaim(self) -> None:
        """Give it back: it is not sent."""
        self.allowance.gone(*self._claim, self.clock.monotonic())
        self._claim = (0, 0.0)

    def request(
        self, items: list[Outgoing], *, timeout_ms: int
    ) -> asyncio.Future[list[ProduceAck]]:
        """Send them in one request. Raises: AbortError."""
        try:
            answer = self.lane.send([item.entry for item in items], timeout_ms=timeout_ms)
        except (ConnectionLostError, DeadlineError) as error:  # what it ended with, may be long ago
            raise AbortError(f"the produce connection is lost: {error}") from error
        now = self.clock.monotonic()
        self._asked.append((now, items))
        size, since = self._claim
        if size:
            self._claim = (0, 0.0)
        else:
            size, since = _size(items), now
            self.allowance.sent(size, since)
        answer.add_done_callback(partial(self._heard, size, since))
        return answer

    def _heard(self, size: int, since: float, answer: asyncio.Future[list[ProduceAck]]) -> None:
        self._asked.popleft()  # answers come in order
        # To look for an exception is enough: who aborts does not look at all that were on their way
        now = self.clock.monotonic()
        if answer.cancelled() or answer.exception() is not None:
            self.allowance.gone(size, since, now)
        else:
            self.allowance.answered(size, since, now, self.lane.connection.muted_s)

    async def room(self) -> None:
        """Wait while the connection takes no more: a slow network, a quota, a login that is due.

        Raises: AbortError.
        """
        try:
            await self.lane.ready()
        except (ConnectionLostError, DeadlineError) as error:
            raise AbortError(f"the produce connection takes nothing: {error}") from error

    def takes(self, depth: int) -> bool:
        """Whether another request may follow at once, where so many may be without an answer."""
        return len(self.flights) < depth and not self.lane.connection.must_wait

    @property
    def waiting(self) -> list[Outgoing]:
        """What is in the oldest request without an answer; the others wait behind it."""
        return self._asked[0][1] if self._asked else []

    @property
    def silence_s(self) -> float:
        """For how long the broker's quota wants nothing: of any slot, or of this connection."""
        of_all_s = self.allowance.silence_s(self.clock.monotonic())
        return max(of_all_s, self.lane.connection.muted_s)

    @property
    def room_bytes(self) -> int:
        """How much the broker is known to take now."""
        return 0 if self.lane.connection.muted_s else self.allowance.room(self.clock.monotonic())

    def wait_s(self, wake: Callable[[], None]) -> float:
        """For how long that is nothing; `wake` is called if it may be more before."""
        wait_s = self.allowance.wait_s(self.clock.monotonic(), wake)
        return self.lane.connection.muted_s or wait_s

    def waits_s(self, now: float) -> float:
        """Since when that request waits."""
        return now - self._asked[0][0] if self._asked else 0.0

    @property
    def closed_at_rest(self) -> bool:
        """Whether the connection ended while nothing was on its way: a broker closes what is idle
        (connections.max.idle.ms, 10 min).
        """
        return self.lane.connection.closed and not self.flights and not self._asked


class Pipes:
    """A slot's connections to target brokers, one to each: made when first needed."""

    def __init__(self, runner: SlotRunner, name: str = "") -> None:
        """`name` is the transactional id if that is not in use yet."""
        self._runner, self._name = runner, name
        self._by_node: dict[int, Pipe] = {}
        self._making: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __iter__(self) -> Iterator[Pipe]:
        return iter(self._by_node.values())

    @property
    def are_several(self) -> bool:
        """Whether there are connections to several brokers."""
        return len(self._by_node) > 1

    async def to(self, node: int) -> Pipe:
        """The connection to a broker. Raises: AbortError."""
        pipe = self._by_node.get(node)
        if pipe is None or pipe.lane.connection.closed:
            async with self._making[node]:
                pipe = await self._made(node)
        return pipe

    async def _made(self, node: int) -> Pipe:
        pipe = self._by_node.get(node)
        if pipe is not None:
            if not pipe.lane.connection.closed:
                return pipe  # meanwhile
            pipe.unclaim()
        try:
            lane = await self._runner.produce_lane(node, self._name)
        except (ConnectionLostError, DeadlineError, AuthenticationError) as error:
            raise AbortError(f"no connection to target broker {node}: {error}") from error
        pipe = self._by_node[node] = Pipe(lane, self._runner.allowances[node], self._runner.clock)
        return pipe

    async def made_ahead(self) -> None:
        """Connect to all brokers that the slot writes to; one that is away is met when needed."""

        async def one(node: int) -> None:
            with suppress(MirrorfleetError):
                await self.to(node)

        runner = self._runner
        places = {entry.target for entry in runner.entries.values()}.union(control_of(runner))
        leaders = (runner.targets.of(*at) for at in places)
        await all_of(map(one, {leader.node for leader in leaders if leader is not None}))

    def put_in_use(self) -> None:
        """The slot goes on with these."""
        self._name = ""
        for node in self._by_node:
            self._runner.doubts.connected(node)

    def node_of(self, at: TopicPartition) -> int:
        """The broker that leads a partition. Raises: AbortError."""
        leader = self._runner.targets.of(at.topic, at.partition)
        if leader is None:
            raise AbortError(f"{at} has no leader")
        return leader.node

    def late(self, after_s: float) -> list[Pipe]:
        """Those whose oldest answer takes longer."""
        now = self._runner.clock.monotonic()
        return [pipe for pipe in self if pipe.waits_s(now) > after_s]

    def silence_s(self, at: Collection[TopicPartition]) -> float:
        """How long the quota of a broker that leads one of them wants us to send nothing."""
        now, found = self._runner.clock.monotonic(), self._runner.allowances
        leaders = (self._runner.targets.of(*each) for each in at)
        nodes = {leader.node for leader in leaders if leader is not None}
        return max((found[node].silence_s(now) for node in nodes), default=0.0)

    @property
    def is_silent(self) -> bool:
        """Whether one that has a part in the current transaction wants us to send nothing."""
        return any(pipe.silence_s > 0 for pipe in self if pipe.opened)

    def drop_closed(self) -> set[int]:
        """Leave out what closed at rest: no doubt while no transaction is open; the brokers."""
        nodes = {node for node, pipe in self._by_node.items() if pipe.closed_at_rest}
        for node in nodes:
            self._by_node.pop(node).unclaim()
        return nodes

    def close(self) -> None:
        """End all."""
        for pipe in self:
            pipe.unclaim()
            pipe.lane.close()
        self._by_node.clear()
