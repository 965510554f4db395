"""What a transactional id left open in control partitions, ended before it writes there again.

    describe partitions and id ─> InitProducerId ─> describe again ─> missing markers ─> write

A coordinator that finds no leader forgets a marker (brokers of 4.3: KAFKA-20734). The next marker
of the same producer id would end what is open there with its own transaction, and a coordinator
knows of the last transaction only. So whoever takes an id, a worker or an operator, asks first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import HOW_TO_GRANT, BrokerError, FencedError, MirrorfleetError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import (
    ActiveProducer,
    TransactionDescription,
    describe_producers,
    describe_transactions,
)
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion

ENDED_S: Final = 10.0
"""Deadline for the coordinator to have written the markers that it will write."""
OPEN: Final = "Ongoing"
UNUSED: Final = "Empty"
"""Nothing was written since it was taken (TransactionState)."""
ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction whose markers are still being written (TransactionMetadata)."""
COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_NOTHING_TO_TELL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # the fence is refused too, in words
    }
)
_ASK_S: Final = 5.0
"""For one look: a leader that comes back later is asked anew by the next attempt."""
_AGAIN: Final = (
    "A write could commit what is open there, though it was aborted. Run it again once the brokers"
    " that lead these partitions answer."
)
_RIGHTS: Final = f"It takes READ on these topics. {HOW_TO_GRANT}"


class LeftOpenError(MirrorfleetError):
    """Raised when an id may have left something open that nobody can end now: nothing is written.

    As retriable as its cause.
    """


class OpenHere(NamedTuple):
    """A transaction that is open in a partition: whose, and from which offset on."""

    producer: ProducerIdentity
    start: int


class LeftOpen:
    """What is known of an id while it is taken by order, over all attempts of one command.

    Each InitProducerId changes what the coordinator tells. So how the last transaction of an owner
    ended is remembered until what it left open is ended, and so is what was decided of each.
    """

    def __init__(
        self, cluster: Cluster, name: str, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._taken: ProducerIdentity | None = None
        self._last: TransactionDescription | None = None
        self._decided: dict[tuple[TopicPartition, OpenHere], bool] = {}

    async def look(self) -> None:
        """Do this before each InitProducerId.

        Raises: LeftOpenError when a leader or the coordinator does not tell; the id is not taken.
        """
        try:
            # else the id would be taken, and nothing settled
            await producers_in(self._cluster, self._partitions, _ASK_S)
            now = await described(self._cluster, self._name, _ASK_S)
        except MirrorfleetError as error:
            raise self._unclear("is not taken", error) from error
        if self._taken is None or now is None or now.producer != self._taken:
            self._last = now

    async def settle(
        self, transactions: Transactions, producer: ProducerIdentity
    ) -> ProducerIdentity:
        """Do this after each InitProducerId; gives the identity to go on with.

        Raises: LeftOpenError when a leader does not tell, or takes no marker; FencedError.
        """
        self._taken = producer
        try:
            answers = await producers_in(self._cluster, self._partitions, _ASK_S)
            ends = self._ends(open_of(answers, producer), transactions.version)
            producer = await write_markers(transactions, producer, ends, self._timeout_ms)
        except FencedError:
            raise
        except MirrorfleetError as error:
            raise self._unclear("is taken, its owner fenced", error) from error
        self._taken = None
        self._decided.clear()
        return producer

    def _ends(
        self, found: dict[TopicPartition, OpenHere], version: TransactionVersion
    ) -> dict[TopicPartition, bool]:
        for at, here in found.items():
            committed = was_committed(self._last, at, here.producer.epoch, version)
            self._decided.setdefault((at, here), committed)
        return {at: self._decided[at, here] for at, here in found.items()}

    def _unclear(self, state: str, error: MirrorfleetError) -> LeftOpenError:
        names = ", ".join(map(str, self._partitions))
        unclear = LeftOpenError(
            f"{self._cluster.name}: {self._name} {state}, and nothing is written: what it left open"
            f" in {names} cannot be known or ended now: {error.message.rstrip('.')}.",
            hint=_AGAIN if error.retriable else error.hint or _RIGHTS,
        )
        unclear.retriable = error.retriable
        return unclear


def by_end(found: dict[TopicPartition, bool]) -> Iterator[tuple[bool, list[TopicPartition]]]:
    """What is to be committed first, then what is to be aborted."""
    for copied in (True, False):
        some = sorted(at for at, is_copied in found.items() if is_copied is copied)
        if some:
            yield copied, some


async def producers_in(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline_s: float | None = None
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Who has what open in partitions, of which each leader must tell.

    Raises: as `describe_producers`, and BrokerError when a leader does not tell.
    """
    found = {}
    answers = await describe_producers(cluster, partitions, deadline_s=deadline_s)
    for at, answer in answers.items():
        if isinstance(answer, BrokerError):
            raise answer
        found[at] = answer
    return found


async def described(
    cluster: Cluster,
    name: str,
    deadline_s: float | None = None,
    coordinators: dict[str, int] | None = None,
) -> TransactionDescription | None:
    """An id as its coordinator has it; None when it was never used, or may not be. `coordinators`
    as for `describe_transactions`.

    Raises: as `describe_transactions`, and BrokerError when the coordinator cannot tell.
    """
    state = (
        await describe_transactions(
            cluster, [name], deadline_s=deadline_s, coordinators=coordinators
        )
    )[name]
    if isinstance(state, BrokerError):
        if state.code in _NOTHING_TO_TELL:
            return None
        raise state
    return state


def open_of(
    answers: dict[TopicPartition, list[ActiveProducer]], producer: ProducerIdentity
) -> dict[TopicPartition, OpenHere]:
    """Where a producer id has a transaction open, of any of its epochs."""
    return {
        at: OpenHere(each.producer, each.transaction_start)
        for at, answer in answers.items()
        for each in answer
        if each.producer.producer_id == producer.producer_id and each.transaction_start is not None
    }


def was_committed(
    last: TransactionDescription | None, at: TopicPartition, epoch: int, version: TransactionVersion
) -> bool:
    """Whether what is open in a control partition was committed, by the last transaction of its id.

    It is of that transaction, or of one before: that one was committed, for its owner would have
    ended an aborted one (`Doubts`). With v2 the epoch tells them apart: each end gives another one,
    and the coordinator has the next one once it decided. With v1 only a transaction that is still
    open shows its partitions. In other states nobody knows: copied twice is better than lost.
    """
    if last is None or last.state not in {OPEN, *COMMITTED}:
        return False
    if version is TransactionVersion.V2:
        return epoch < last.producer.epoch
    return last.state in COMMITTED or at not in last.partitions


async def write_markers(
    transactions: Transactions,
    producer: ProducerIdentity,
    ends: dict[TopicPartition, bool],
    timeout_ms: int,
) -> ProducerIdentity:
    """End what is open there by transactions of nothing: committed where it says so.

    Raises: as the requests of `Transactions`.
    """
    for committed, some in by_end(ends):
        await transactions.add_partitions(producer, some)
        if committed or transactions.version is TransactionVersion.V2:
            producer = await transactions.end(producer, commit=committed)
        if transactions.version is TransactionVersion.V1:
            # It aborts; and a late copy of our end must not act on the next transaction.
            producer = await transactions.init_producer_id(
                timeout_ms=timeout_ms, deadline_s=ENDED_S
            )
    return producer
