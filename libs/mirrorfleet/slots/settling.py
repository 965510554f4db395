"""Transactions that their coordinator has ended, and that are open in a partition all the same.

A coordinator that finds no leader for a partition takes it for deleted, and ends the transaction
without a marker there (brokers of 4.3: KAFKA-20734). The next marker of the same producer id would
end it with its own transaction: what was aborted would be seen, what was committed could vanish.
So after each abort and each take-over, and where a leader has changed or a connection was lost, the
leaders are asked before anything is written, and the slot's positions say which end it gets:

    partition    0 ... 194 | 195 ... 277 open           copied to 195: abort it
                           |                            copied to 278: commit it

The slot's positions and segments are asked about as well, and before they are added to another
transaction: one that is aborted would take back the positions of the one before. So is the ledger,
which is everybody's: what an owner before has left open there nobody could read past. How that
ended its coordinator says, as it was when the slot was taken.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.inspection import describe_transactions
from mirrorfleet.kafka.left_open import ENDED_S, ENDING, OPEN, UNUSED, by_end, was_committed
from mirrorfleet.kafka.together import both_of
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.slots import ledger
from mirrorfleet.slots.endings import (
    control_of,
    described,
    take_id,
    tell,
    transactions_of,
    word_of,
    write_markers,
)
from mirrorfleet.slots.lineage import Lineage
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.silence import LOOK_S, Silent, producers_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mirrorfleet.core.ids import ProducerIdentity, TopicId
    from mirrorfleet.kafka.inspection import TransactionDescription
    from mirrorfleet.slots.leaders import LeaderAt
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

WEDGED_S: Final = 0.3
"""Longer than markers take: then it is looked up whether some cannot be written."""
AGAIN_S: Final = 0.02
UNCLEAR_S: Final = 0.05
"""Between two looks whether the slot's positions are out of doubt."""


class UnsettledError(MirrorfleetError):
    """Raised when the slot must be taken again so that an open transaction ends."""

    retriable = True


class Open(NamedTuple):
    """Where a transaction is open, and whether the slot's positions call it copied."""

    ours: dict[TopicPartition, bool]
    others: dict[TopicPartition, bool]
    """Of the slot's other id."""


class Fenced(NamedTuple):
    """What an id's last transaction was when it was taken, and as whom."""

    producer: ProducerIdentity
    last: TransactionDescription | None


class Doubts:
    """The partitions of a slot that may have such a transaction, until their leaders said no."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._doubted: set[TopicPartition] = set()
        self._asked: dict[TopicPartition, float] = {}
        self._led: dict[TopicPartition, LeaderAt] = {}
        self._connected: set[int] = set()
        self._moved = True
        self._other: int | None = None
        self._fenced: dict[str, Fenced] = {}
        self.control_ends: dict[TopicPartition, int] = {}
        """Behind what was committed to each control partition, with whatever producer id."""
        self._beside: set[TopicPartition] = set()
        """The ledger, from the first take on."""
        self._before: dict[int, Fenced] = {}
        """By producer id: what was open beside the positions when the id was taken."""
        self._silent, self._lineage = Silent(runner), Lineage(runner)
        runner.targets.on_change(self._renewed)

    def renew(self) -> None:
        """A transaction of the slot was ended without being committed, by us or for us."""
        self._doubted = set(self._all())
        self._silent.partitions &= self._doubted
        self._asked.clear()

    def begin(self) -> None:
        """Another owner may have copied on: what leaders had before says nothing of that."""
        self._led.clear()
        self._lineage.forget()

    def doubt(self, at: TopicPartition) -> None:
        """Its last marker may lack: the slot writes to it from now on, or its leader is new."""
        self._doubted.add(at)
        self._moved = True  # who leads it now is to be remembered
        self._asked.pop(at, None)
        self._silent.partitions.discard(at)

    def answered(self, some: Collection[TopicPartition]) -> None:
        """What is open there is known just now, and ended; or nobody is to write there any more."""
        self._doubted.difference_update(some)
        self._silent.partitions.difference_update(some)

    def reached_anew(self, nodes: Collection[int]) -> None:
        """Connections to these brokers ended at rest, and others may be made; but what they lead
        is in doubt: one that stopped may lack the marker of the last commit.
        """
        if not nodes:
            return
        self._connected.difference_update(nodes)
        for at in self._all():
            leader = self._runner.targets.of(*at) or self._led.get(at)
            if leader is None or leader.node in nodes:
                self._doubted.add(at)
                self._asked.pop(at, None)

    def _all(self) -> Iterator[TopicPartition]:
        """Whatever the slot's transactions write to."""
        yield from (each.target for each in self._runner.slot.partitions.values())
        yield from control_of(self._runner)
        yield from self._beside

    async def learn(self) -> TransactionDescription | None:
        """Find out which producer id the slot's other id has: what that left open counts, too.
        Raises: as `described`.
        """
        found = await described(self._runner, self._runner.wedges.other_id)
        self._other = None if found is None else found.producer.producer_id
        return found

    async def last_of(self, name: str) -> TransactionDescription | None:
        """The last transaction that was written with an id, also when we have fenced it since and
        wrote none, or could not settle what it left open. Raises: as `described`.
        """
        now = await described(self._runner, name)
        if now is not None:
            before = self._fenced.get(name)
            if before is None and now.state == UNUSED:
                before = self._before.get(now.producer.producer_id)
            if before is not None and before.producer == now.producer:
                return before.last
        return now

    def fenced(
        self, name: str, producer: ProducerIdentity, last: TransactionDescription | None
    ) -> None:
        """We took an id whose last transaction was that."""
        self._fenced[name] = self._before[producer.producer_id] = Fenced(producer, last)
        self._beside.add(at := ledger.place(self._runner))
        if name == self._runner.transactional_id:  # of another one it is asked with the next take
            self.doubt(at)

    def settled(self, name: str) -> None:
        """Nothing is left open of it: what comes now is another transaction."""
        self._fenced.pop(name, None)

    def closed(self) -> None:
        """We have closed all connections of the slot ourselves."""
        self._connected.clear()

    def lost(self, node: int) -> bool:
        """Whether the connection for data to this broker was lost: it may have stopped."""
        return node in self._connected

    def connected(self, node: int) -> None:
        """A connection for data is there."""
        self._connected.add(node)

    @property
    def doubted(self) -> set[TopicPartition]:
        """What nothing may be written to before its leader was asked."""
        if self._moved:
            self._moved = False
            self._look()
        return self._doubted

    def _renewed(self) -> None:
        self._moved = True

    def _look(self) -> None:
        """A leader of another epoch: the partition may have had none for a while."""
        for at in self._all():
            now = self._runner.targets.of(*at)
            if now is not None:
                if (before := self._led.get(at, now)) != now:
                    self._lineage.moved(at, before.epoch)
                    self.doubt(at)
                self._led[at] = now

    @property
    def must_wait(self) -> bool:
        """Whether the slot's positions are in doubt: nothing of it may be begun then."""
        of, doubted = self._runner.targets.of, self.doubted
        return any(at in doubted or of(*at) is None for at in control_of(self._runner))

    async def ready(self, sender: Sender) -> None:
        """Nothing is begun that could not commit its positions now.

        So whatever is open in them while a transaction is open is of one that was committed
        (`left_open.was_committed`). Raises: AbortError.
        """
        if not self._runner.slot.ready:
            return
        if self.must_wait:
            raise AbortError("an earlier transaction may be open in the slot's positions")
        for at in control_of(self._runner):
            await sender.connect_to(at)

    async def clear(self, sender: Sender, wanted: Collection[TopicPartition]) -> None:
        """Ask about what the open transaction is to write to next, if it is in doubt.

        Raises: AbortError when an earlier one is open there, or when nobody tells.
        """
        doubted = sorted(self.doubted.intersection(wanted))
        if not doubted:
            return
        found = await self._open(sender, doubted)
        if found.ours or not self._doubted.isdisjoint(doubted):
            names = ", ".join(map(str, doubted))
            raise AbortError(f"an earlier transaction is open, or may be, in {names}")

    async def settle(self, sender: Sender) -> bool:
        """Do what can be done now, and give whether another transaction may be begun.

        Raises: as `_settle`.
        """
        self.reached_anew(sender.pipes.drop_closed())
        if self.doubted:
            await self._settle(sender, self.doubted.intersection(control_of(self._runner)))
        if self.must_wait:
            self._runner.trouble = "an earlier transaction may be open in the slot's positions"
            await asyncio.sleep(UNCLEAR_S)
            return False
        if self.doubted:
            await self._settle(sender, self.doubted - self._silent.partitions)
            self._silent.ask()
        return True

    async def _settle(self, sender: Sender, wanted: Collection[TopicPartition]) -> None:
        """Ask about those that have a leader; end what is open. We have none open now.

        Raises: UnsettledError, FencedError, and what else a broker or a network fails with;
        WedgedError when some markers cannot be written.
        """
        runner = self._runner
        now = runner.clock.monotonic()
        led = [
            at
            for at in wanted
            if runner.targets.of(*at) is not None and now - self._asked.get(at, -inf) >= LOOK_S
        ]
        if not led:
            return
        self._asked.update(dict.fromkeys(led, now))
        ours, others = await self._open(sender, led)
        if silent := self._doubted.intersection(led):
            self._silent.add(silent)
        if others:
            await self._end_others(sender, others)
        if ours:
            self._doubted.update(ours)  # until they are ended: the next look may get no answer
            await self._ended()
            ours, _ = await self._open(sender, led)
            for copied, some in by_end(ours):
                await self._end(sender, some, commit=copied)

    async def _open(self, sender: Sender, led: Sequence[TopicPartition]) -> Open:
        """Where a transaction of either id is open, and whether it counts as copied.

        Whoever has answered is in doubt no longer: what is open there is ended now.
        """
        runner = self._runner
        found, control = Open({}, {}), control_of(runner)
        copied = {**dict.fromkeys((*control, *self._beside), 0), **self.control_ends}
        copied.update(_copied_to(runner))
        answers, untold = await both_of(producers_of(runner, led), self._lineage.untold(led))
        for at, answer in answers.items():
            if isinstance(answer, BrokerError):
                if answer.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self._doubted.discard(at)  # without READ nobody can look
                continue
            if at not in untold:
                self._doubted.discard(at)
            end = copied.get(at)
            if end is None:
                continue  # not copied any more: what is committed there must not be aborted
            for each in answer:
                who, start = each.producer.producer_id, each.transaction_start
                if start is not None and who == sender.producer.producer_id:
                    found.ours[at] = self._is_copied(at, each.producer, start, end)
                elif start is not None and who == self._other and at not in control:
                    found.others[at] = self._is_copied(at, each.producer, start, end)
        return found

    def _is_copied(self, at: TopicPartition, whose: ProducerIdentity, start: int, end: int) -> bool:
        """Whether what is open from `start` on was committed; `end` is what our positions say, and
        of the ledger, where an owner before us wrote as well, what we have committed ourselves.
        """
        before = self._before.get(whose.producer_id)
        if at not in self._beside or before is None or whose.epoch >= before.producer.epoch:
            return start < end
        return was_committed(before.last, at, whose.epoch, self._runner.transaction_version)

    async def _ended(self) -> None:
        """Wait until the coordinator has done all that it will do for the last transaction."""
        runner = self._runner
        name, began = runner.transactional_id, runner.clock.monotonic()
        try:
            async with asyncio.timeout(ENDED_S):
                while True:
                    state = (await describe_transactions(runner.target, [name]))[name]
                    if isinstance(state, BrokerError):
                        raise state
                    if state.state != OPEN and state.state not in ENDING:
                        return
                    if runner.clock.monotonic() - began > WEDGED_S:
                        await runner.wedges.check()
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise UnsettledError(
                f"{name}: the markers of its last transaction are not written"
            ) from None

    async def _end_others(self, sender: Sender, others: dict[TopicPartition, bool]) -> None:
        """Give what the other id left open a marker, or leave it behind: the main id may not be
        taken while it cannot go on. Raises: WedgedError.
        """
        runner = self._runner
        if runner.wedges.left_behind:
            if more := others.keys() - self._beside:  # the ledger waits for the main id
                runner.wedges.leave(more)
            return
        tell(runner, "ended", len(others))
        spare = transactions_of(runner, runner.wedges.spare_id)
        with closing(spare):
            async with runner.spare.alone:
                runner.spare.drop()
                producer = await take_id(runner, spare)
                await runner.keep_alive(sender)  # nobody can have used the spare id: we own it
                _, others = await self._open(sender, list(others))
                await write_markers(runner, spare, producer, others)

    async def _end(self, sender: Sender, some: list[TopicPartition], *, commit: bool) -> None:
        """Give these partitions a marker by a transaction of nothing."""
        runner = self._runner
        tell(runner, word_of(committed=commit), len(some))
        version = runner.transaction_version
        with closing(transactions_of(runner, runner.transactional_id)) as transactions:
            await transactions.add_partitions(sender.producer, some)
            if version is TransactionVersion.V1 and not commit:
                raise UnsettledError("the next owner's epoch aborts it")
            producer = await transactions.end(sender.producer, commit=commit)
            if transactions.must_init_again:
                raise UnsettledError("a request of the protocol had to be sent twice (v1)")
        if producer != sender.producer:
            runner.slot.sequences.clear()
        sender.producer = producer


def _copied_to(runner: SlotRunner) -> Iterator[tuple[TopicPartition, int]]:
    """Behind what was copied to each partition; also to those that are left behind for now.

    The newest position tells, for what an earlier incarnation had copied may be cut off since. Only
    one that has none yet, or an older build's first, leaves it to those before.
    """
    slot = runner.slot
    former: dict[tuple[TopicId, int], int] = {}
    for identity, position in slot.known.items():
        at = identity.target_topic_id, identity.partition
        former[at] = max(former.get(at, 0), position.next_target)
    entries = {identity: each.entry for identity, each in slot.partitions.items()}
    for identity, entry in {**runner.entries, **entries}.items():
        mine = slot.partitions.get(identity)
        newest = slot.known.get(identity) if mine is None else mine.committed
        copied = 0 if newest is None else newest.next_target
        yield entry.target, copied or former.get((identity.target_topic_id, identity.partition), 0)
