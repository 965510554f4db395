"""Taking an id of a slot, with nothing left open that its next marker would end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError, denied
from mirrorfleet.kafka.together import both_of
from mirrorfleet.slots import endings
from mirrorfleet.slots.outgoing import RetakeError

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.kafka.inspection import TransactionDescription
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.runner import SlotRunner

FENCE_LOOK_S: Final = 1.5
"""Then an owner looks whether its last transaction cannot end."""
FENCE_DEADLINE_S: Final = 60.0
"""InitProducerId waits for the markers of the transaction that it ends."""
CONNECT_S: Final = 2.0
"""To the coordinator, before it is asked."""
NO_MEMBER: Final = "the group's coordinator does not say that we are a member"


async def fence_settled(
    runner: SlotRunner, transactions: Transactions, *, only_member_s: float | None = None
) -> ProducerIdentity:
    """Take an id of the slot, and leave nothing open that the next marker there would end.

    What was open is aborted, all its markers are written then. Closes `transactions` when it fails.
    `only_member_s` is for one that nobody waits for: the group is asked directly before, and it is
    given up after so long. Raises: as `take`; RetakeError of one that is no member; WedgedError of
    an owner whose last transaction cannot end.
    """
    try:
        _, last = await both_of(  # else the id would be taken, and nothing settled
            endings.ask_control(runner), _last_of(runner, transactions)
        )
        if only_member_s is not None and not await runner.confirm():
            raise RetakeError(NO_MEMBER)
        producer = await _fence(runner, transactions, only_member_s or FENCE_DEADLINE_S)
        runner.doubts.fenced(transactions.transactional_id, producer, last)
        producer = await endings.settle_control(runner, transactions, producer, last)
        runner.doubts.settled(transactions.transactional_id)
        return producer
    except BaseException:
        transactions.close()
        raise


async def _last_of(runner: SlotRunner, transactions: Transactions) -> TransactionDescription | None:
    """What was written last with the id; its coordinator is connected to meanwhile."""

    async def connect() -> None:
        with suppress(MirrorfleetError):  # who asks it for an id tries again, for longer
            await transactions.connect(CONNECT_S)

    name = transactions.transactional_id
    last, _ = await both_of(runner.doubts.last_of(name), connect())
    return last


async def _fence(
    runner: SlotRunner, transactions: Transactions, deadline_s: float
) -> ProducerIdentity:
    timeout_ms = runner.settings.transaction_timeout_ms
    init = transactions.init_producer_id
    try:
        if runner.wedges.is_owner and transactions.transactional_id == runner.wedges.main_id:
            try:
                return await init(timeout_ms=timeout_ms, deadline_s=FENCE_LOOK_S)
            except DeadlineError:
                await runner.wedges.check()
        return await init(timeout_ms=timeout_ms, deadline_s=deadline_s)
    except BrokerError as error:
        raise _explained(runner, transactions.transactional_id, error) from error


def _explained(runner: SlotRunner, name: str, error: BrokerError) -> BrokerError:
    """A refused transactional id, with who wanted to do what with it."""
    if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return error
    resource = f"TransactionalId:{name}"
    return denied(error.code, runner.target_principal, "WRITE", resource, runner.link.target)
