"""How a transaction ended, and ending by hand what its coordinator has left open.

Before a slot is taken its positions are made whole: what is open in them gets the marker that its
transaction would have had, and only then a barrier is written behind them. Operators who take an id
of a slot do the same (`kafka/left_open.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.kafka import left_open
from mirrorfleet.kafka.left_open import ENDED_S, by_end, open_of, was_committed
from mirrorfleet.kafka.transactions import Transactions
from mirrorfleet.records.topics import OF_A_COMMIT
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
    from mirrorfleet.kafka.inspection import ActiveProducer, TransactionDescription
    from mirrorfleet.slots.runner import SlotRunner

_log = logger(__name__)


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


async def is_open(runner: SlotRunner, found: TransactionDescription | None) -> bool:
    """Whether an id of the slot, as it was described, has something open where the slot's positions
    and segments go. Raises: as `ask_control`.
    """
    return found is not None and bool(open_of(await ask_control(runner), found.producer))


async def ask_control(
    runner: SlotRunner, others: Collection[TopicPartition] = (), deadline_s: float | None = None
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Who has what open where the slot's positions and segments go, and in others.

    Raises: as `describe_producers`, and BrokerError when a leader does not tell.
    """
    wanted = [*control_of(runner), *others]
    return await left_open.producers_in(runner.target, wanted, deadline_s)


async def described(
    runner: SlotRunner,
    name: str,
    deadline_s: float | None = None,
    coordinators: dict[str, int] | None = None,
) -> TransactionDescription | None:
    """An id as its coordinator has it; None when it was never used, or may not be. `coordinators`
    as for `describe_transactions`.

    Raises: as `describe_transactions`, and BrokerError when the coordinator cannot tell.
    """
    return await left_open.described(runner.target, name, deadline_s, coordinators)


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
    answers = await ask_control(runner)
    found, version = open_of(answers, producer), transactions.version
    if transactions.transactional_id == runner.transactional_id:
        runner.doubts.answered(answers)
    ends = {at: was_committed(last, at, each.producer.epoch, version) for at, each in found.items()}
    for committed, some in by_end(ends):
        tell(runner, word_of(committed=committed), len(some), what="markers for its positions")
    return await write_markers(runner, transactions, producer, ends)


async def write_markers(
    runner: SlotRunner,
    transactions: Transactions,
    producer: ProducerIdentity,
    ends: dict[TopicPartition, bool],
) -> ProducerIdentity:
    """End what is open there by transactions of nothing: committed where it says so."""
    timeout_ms = runner.settings.transaction_timeout_ms
    return await left_open.write_markers(transactions, producer, ends, timeout_ms)


async def take_id(runner: SlotRunner, transactions: Transactions) -> ProducerIdentity:
    """Take an id of which at most a transaction of ours is open."""
    timeout_ms = runner.settings.transaction_timeout_ms
    return await transactions.init_producer_id(timeout_ms=timeout_ms, deadline_s=ENDED_S)


def control_of(runner: SlotRunner) -> list[TopicPartition]:
    """What each commit of the slot writes beside the data."""
    return [runner.control_partition(kind) for kind in OF_A_COMMIT]
