"""What a sender has on its way: batches, requests without an answer, connections; why it aborts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.copying.faults import Action
from mirrorfleet.copying.transaction import SpoiledError, TargetBehindError
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    may_not,
)
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.wire.rewrite import sequence_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.copying.partition import CopyPartition
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


@dataclass(slots=True)
class Pipe:
    """The slot's connection to one target broker."""

    lane: ProduceLane
    flights: deque[Flight] = field(default_factory=deque)
    unanswered: int = 0
    opened: bool = False
    """Whether the broker has accepted a request of the current transaction."""
    _asked: deque[tuple[float, list[Outgoing]]] = field(default_factory=deque)

    def request(
        self, items: list[Outgoing], now: float, *, timeout_ms: int
    ) -> asyncio.Future[list[ProduceAck]]:
        """Send them in one request. Raises: AbortError."""
        try:
            answer = self.lane.send([item.entry for item in items], timeout_ms=timeout_ms)
        except ConnectionLostError as error:
            raise AbortError(f"the produce connection is lost: {error}") from error
        self._asked.append((now, items))
        answer.add_done_callback(self._heard)
        return answer

    def _heard(self, answer: asyncio.Future[list[ProduceAck]]) -> None:
        self._asked.popleft()  # answers come in order
        if not answer.cancelled():
            answer.exception()  # heard of: who aborts does not look at all that were on their way

    async def room(self) -> None:
        """Wait while the connection takes no more: a slow network, a quota, a login that is due.

        Raises: AbortError.
        """
        try:
            await self.lane.ready()
        except (ConnectionLostError, DeadlineError) as error:
            raise AbortError(f"the produce connection takes nothing: {error}") from error

    @property
    def waiting(self) -> list[Outgoing]:
        """What is in the oldest request without an answer; the others wait behind it."""
        return self._asked[0][1] if self._asked else []

    def waits_s(self, now: float) -> float:
        """Since when that request waits."""
        return now - self._asked[0][0] if self._asked else 0.0

    @property
    def closed_at_rest(self) -> bool:
        """Whether the connection ended while nothing was on its way: a broker closes what is idle
        (connections.max.idle.ms, 10 min).
        """
        return self.lane.connection.closed and not self.flights and not self._asked


def close_all(pipes: dict[int, Pipe]) -> None:
    """End the connections to all brokers."""
    for pipe in pipes.values():
        pipe.lane.close()
    pipes.clear()


def drop_closed(pipes: dict[int, Pipe]) -> set[int]:
    """Leave out what closed at rest; the brokers that it led to."""
    nodes = {node for node, pipe in pipes.items() if pipe.closed_at_rest}
    for node in nodes:
        del pipes[node]
    return nodes
