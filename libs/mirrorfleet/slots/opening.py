"""Which broker gets what, and how the partitions of a request come into the transaction.

    v1                   AddPartitionsToTxn ─> requests
    v2, one broker                             request: its broker adds the partitions (KIP-890)
    v2, several brokers  AddPartitionsToTxn ─> requests side by side

Where several brokers add partitions of one transaction at the same time, the coordinator refuses
all but one as long as it writes that addition, and the others ask again in steps of 20 ms
(AddPartitionsToTxnManager, AddPartitionsToTxnConfig). One after the other they cost a round trip
and a write each, of every commit. What is in the transaction already is answered without a write
(TransactionCoordinator.handleAddPartitionsToTransaction).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.copying.faults import produce_action
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.kafka.transactions import NotAddedError, TransactionVersion
from mirrorfleet.slots import ledger
from mirrorfleet.slots.outgoing import AbortError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.transaction import Transaction
    from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.leaders import LeaderAt
    from mirrorfleet.slots.outgoing import Outgoing, Pipe
    from mirrorfleet.slots.runner import SlotRunner

BUSY_S: Final = 0.1
"""Markers that take longer may never be written: who sends a first request finds out why."""
FIRST_AGAIN_S: Final = 0.02
"""Between two tries of what could not be added, while old markers or others are being written."""
ANSWER_S: Final = 6.0
"""A coordinator that says nothing for so long is left to the brokers."""


class Request(NamedTuple):
    """What goes to one broker."""

    pipe: Pipe
    items: list[Outgoing]


class Able(NamedTuple):
    """A broker that takes more now, and the partitions that have something for it."""

    node: int
    pipe: Pipe
    partitions: list[CopyPartition]


class Additions:
    """What a transaction has added to itself by requests of its own."""

    def __init__(self, runner: SlotRunner, transactions: Transactions) -> None:
        self._runner, self._transactions = runner, transactions
        self._added: set[TopicPartition] = set()
        self.asked = False
        """Whether the coordinator was told of any: it may have begun the transaction."""

    async def add(self, producer: ProducerIdentity, requests: Sequence[Request]) -> bool:
        """Whether all partitions of the requests are in the transaction now.

        Else (v2) each broker is to add its own: there is one, or the coordinator adds none now.
        Raises: FencedError; with v1 as `Wedges.added`, and AbortError of a partition that is
        refused: its broker is not asked before, and says nothing.
        """
        new = {item.at for each in requests for item in each.items} - self._added
        if not new:
            return True
        if self._transactions.version is TransactionVersion.V1:
            try:
                await self._runner.wedges.added(self._transactions, producer, sorted(new))
            except NotAddedError as error:
                raise self._refused(error, requests) from error
        elif len(requests) < 2 or not await self._told(producer, sorted(new)):
            return False
        self._added |= new
        return True

    def _refused(self, error: NotAddedError, requests: Sequence[Request]) -> MirrorfleetError:
        """What stops the partition alone, as a refused batch does; of ours the whole slot."""
        items = (item for each in requests for item in each.items if item.at == error.at)
        item = next(items, None)
        if item is None or item.partition is None:
            return error
        action = produce_action(error.code, first=False)
        return AbortError(str(error), action, partition=item.partition, batch=item.batch)

    async def _told(self, producer: ProducerIdentity, new: Sequence[TopicPartition]) -> bool:
        """An answer that never came costs v2 nothing: the request again, or late, is the same."""
        self.asked = True
        try:
            await self._transactions.add_partitions(
                producer, new, deadline_s=ANSWER_S, busy_s=BUSY_S
            )
        except (BrokerError, DeadlineError):
            return False  # of a partition that is refused its broker says it better: it alone
        return True


@dataclass(slots=True)
class Begun:
    """What a sender keeps of one transaction, and forgets with it."""

    additions: Additions
    written: dict[TopicPartition, int] = field(default_factory=dict)
    """Behind what was acknowledged in each control partition."""
    first_s: float = 0.0
    """What first requests took."""
    look_at: int = 0
    """So many requests without an answer are few enough to look at those that have one."""
    is_sent: bool = False
    """Whether any batch was."""

    @property
    def may_be_known(self) -> bool:
        """Whether the coordinator may have heard of it, from us or from a broker."""
        return self.is_sent or self.additions.asked


def by_node(
    runner: SlotRunner, transaction: Transaction, until: float
) -> dict[int, list[CopyPartition]]:
    """What waits since `until` or longer, by the broker that it goes to."""
    touched, targets = transaction.touched, runner.targets
    doubted = runner.doubts.doubted | runner.wedges.avoided

    def may_begin(partition: CopyPartition, at: LeaderAt | None) -> bool:
        """It has a leader, is in no doubt, and is of the topic that the copy was made to: brokers
        that are told names (v1) take it for any topic of that name.
        """
        if at is None or partition.target in doubted:
            return False
        known = targets.topic_id(partition.target.topic)
        return known is None or known == partition.identity.target_topic_id

    runner.held_back.look(lambda p: may_begin(p, targets.of(*p.target)))
    found: dict[int, list[CopyPartition]] = {}
    for partition in runner.slot.ready_partitions():
        if partition.queue[0].fetched_at > until:
            continue
        at, must_wait = targets.of(*partition.target), ledger.must_wait(runner, partition)
        if partition not in touched and (must_wait or not may_begin(partition, at)):
            # No leader, or one to be asked: the end of the transaction would wait for it.
            runner.held_back.add(partition)
        elif at is not None and not must_wait and not transaction.must_wait(partition, at.node):
            found.setdefault(at.node, []).append(partition)
    return found


def is_not_added(
    runner: SlotRunner, transaction: Transaction, item: Outgoing, error: ErrorCode
) -> bool:
    """Whether a batch is refused only because another broker was adding partitions meanwhile, and
    can be sent as it is: nothing of its partition was appended, nothing is behind it on its way.
    """
    if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
        return False
    age_s = runner.clock.monotonic() - transaction.opened_at
    is_alone = item.partition is None or transaction.is_alone(item.partition)
    return is_alone and age_s < runner.commits.hard_s / 2  # the answer to it may take long, too


async def send_again(
    requests: Sequence[Request], send: Callable[[Pipe, list[Outgoing]], None]
) -> None:
    """What `is_not_added`. Raises: AbortError; also where a broker's quota wants silence, for which
    no open transaction waits.
    """
    if requests:
        await asyncio.sleep(FIRST_AGAIN_S)
    for pipe, items in requests:
        if pipe.silence_s:
            raise AbortError(f"{items[0].at} was not added, and its broker wants to be left alone")
        await pipe.room()
        send(pipe, items)
