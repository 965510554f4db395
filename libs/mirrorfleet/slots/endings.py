"""How a transaction ended, and ending by hand what its coordinator has left open.

Before a slot is taken its positions are made whole: what is open in them gets the marker that its
transaction would have had, and only then a barrier is written behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.inspection import describe_producers, describe_transactions
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
    from mirrorfleet.kafka.inspection import ActiveProducer, TransactionDescription
    from mirrorfleet.slots.runner import SlotRunner

ENDED_S: Final = 10.0
"""Deadline for the coordinator to have written the markers that it will write."""
OPEN: Final = "Ongoing"
ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction whose markers are still being written (TransactionMetadata)."""
COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_NOTHING_TO_TELL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # the fence is refused too, in words
    }
)

_log = logger(__name__)


def by_end(found: dict[TopicPartition, bool]) -> Iterator[tuple[bool, list[TopicPartition]]]:
    """What is to be committed first, then what is to be aborted."""
    for copied in (True, False):
        some = sorted(at for at, is_copied in found.items() if is_copied is copied)
        if some:
            yield copied, some


def word_of(*, committed: bool) -> str:
    """How it ends."""
    return "committed" if committed else "aborted"


def tell(runner: SlotRunner, end: str, count: int, *, what: str = "markers") -> None:
    """Log that so many partitions lacked them, and how what was open there ends now."""
    _log.warning(
        f"a transaction had ended without {what}: {end} now",
        extra=fields(link=str(runner.link), slot=runner.number, count=count),
    )


def transactions_of(runner: SlotRunner, name: str) -> Transactions:
    """The coordinator's side of one of the slot's ids."""
    return Transactions(runner.target, name, runner.transaction_version, dice=runner.dice)


async def open_in(
    runner: SlotRunner,
    name: str,
    others: Collection[TopicPartition] = (),
    deadline_s: float | None = None,
) -> set[TopicPartition]:
    """Where an id of the slot has a transaction open: of where its positions and segments go, and
    of others.

    Raises: as `described`.
    """
    found = await described(runner, name, deadline_s)
    if found is None:
        return set()
    answers = await ask_control(runner, others, deadline_s)
    open_at = {at: _open_epoch(answer, found.producer) for at, answer in answers.items()}
    return {at for at, epoch in open_at.items() if epoch is not None}


async def ask_control(
    runner: SlotRunner, others: Collection[TopicPartition] = (), deadline_s: float | None = None
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Who has what open where the slot's positions and segments go, and in others.

    Raises: as `describe_producers`, and BrokerError when a leader does not tell.
    """
    found = {}
    wanted = [*control_of(runner), *others]
    answers = await describe_producers(runner.target, wanted, deadline_s=deadline_s)
    for at, answer in answers.items():
        if isinstance(answer, BrokerError):
            raise answer
        found[at] = answer
    return found


async def described(
    runner: SlotRunner, name: str, deadline_s: float | None = None
) -> TransactionDescription | None:
    """An id as its coordinator has it; None when it was never used, or may not be.

    Raises: as `describe_transactions`, and BrokerError when the coordinator cannot tell.
    """
    state = (await describe_transactions(runner.target, [name], deadline_s=deadline_s))[name]
    if isinstance(state, BrokerError):
        if state.code in _NOTHING_TO_TELL:
            return None
        raise state
    return state


async def settle_control(
    runner: SlotRunner,
    transactions: Transactions,
    producer: ProducerIdentity,
    last: TransactionDescription | None,
) -> ProducerIdentity:
    """End what is open in the slot's control partitions as its transaction ended; `last` was read
    before the id was taken.

    The barrier's own marker would commit it: positions of a transaction that was aborted would
    count. Gives the identity to go on with. Raises: what a broker or a network fails with.
    """
    found = await ask_control(runner)
    epochs = {at: _open_epoch(answer, producer) for at, answer in found.items()}
    version = transactions.version
    ends = {
        at: was_committed(last, at, epoch, version)
        for at, epoch in epochs.items()
        if epoch is not None
    }
    for committed, some in by_end(ends):
        tell(runner, word_of(committed=committed), len(some), what="markers for its positions")
    return await write_markers(runner, transactions, producer, ends)


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
    runner: SlotRunner,
    transactions: Transactions,
    producer: ProducerIdentity,
    ends: dict[TopicPartition, bool],
) -> ProducerIdentity:
    """End what is open there by transactions of nothing: committed where it says so."""
    for committed, some in by_end(ends):
        await transactions.add_partitions(producer, some)
        if committed or transactions.version is TransactionVersion.V2:
            producer = await transactions.end(producer, commit=committed)
        if transactions.version is TransactionVersion.V1:
            # It aborts; and a late copy of our end must not act on the next transaction.
            producer = await take_id(runner, transactions)
    return producer


async def take_id(runner: SlotRunner, transactions: Transactions) -> ProducerIdentity:
    """Take an id of which at most a transaction of ours is open."""
    timeout_ms = runner.settings.transaction_timeout_ms
    return await transactions.init_producer_id(timeout_ms=timeout_ms, deadline_s=ENDED_S)


def control_of(runner: SlotRunner) -> list[TopicPartition]:
    """What each commit of the slot writes beside the data."""
    return [runner.control_partition(k) for k in (ControlKind.POSITIONS, ControlKind.SEGMENTS)]


def _open_epoch(answer: list[ActiveProducer], producer: ProducerIdentity) -> int | None:
    """The epoch of what a producer id has open there; None when nothing is."""
    for each in answer:
        if each.producer.producer_id == producer.producer_id and each.transaction_start is not None:
            return each.producer.epoch
    return None
