"""What a sender has on its way: batches, requests without an answer, connections; why it aborts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.copying.faults import Action
from mirrorfleet.core.errors import MirrorfleetError

if TYPE_CHECKING:
    import asyncio

    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry, ProduceLane
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


class ControlEntry(NamedTuple):
    """A batch of ours for a control topic."""

    at: TopicPartition
    batch: CopyBatch


class Outgoing(NamedTuple):
    """A batch in a request; `partition` is None for control records."""

    partition: CopyPartition | None
    batch: CopyBatch
    entry: ProduceEntry


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
