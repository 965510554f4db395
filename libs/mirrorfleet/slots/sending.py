"""Sending for one slot: one transaction at a time, pipelined, in the only order that is safe.

    first request to a broker, alone, until it is accepted -> pipeline of data -> all acknowledged
    -> positions and segments -> acknowledged -> EndTxn

Exactly one produce connection per slot and broker: a second request of the same transactional id
on another connection evicts the first (AddPartitionsToTxnManager.addTxnData). A batch is sent
again only when its answer proves that it was not appended; any doubt aborts.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.cadence import Cadence, Supply, supply_of
from mirrorfleet.copying.faults import Action, produce_action
from mirrorfleet.copying.schedule import LONGEST_BYTES, busy_for, commit_interval, must_close
from mirrorfleet.copying.transaction import SpoiledError, TargetBehindError, Transaction
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import NO_TOPIC_ID, ProducerIdentity, TopicPartition
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.slots import ledger, opening
from mirrorfleet.slots.endings import control_of
from mirrorfleet.slots.opening import FIRST_AGAIN_S, Able, Additions, Begun, Request, by_node
from mirrorfleet.slots.outgoing import (
    AbortError,
    ControlEntry,
    Flight,
    Outgoing,
    Pipe,
    Pipes,
    RetakeError,
    acks_of,
    refusal,
    undone,
)
from mirrorfleet.slots.rounds import Rounds, stamped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.kafka.producer import ProduceAck
    from mirrorfleet.slots.runner import SlotRunner

BEGUN_S: Final = 2.0
"""For the ids of the topics of new copies; the transaction is open meanwhile."""


class Sender:
    """Owns the producer identity and the produce connections of a taken slot."""

    def __init__(
        self,
        runner: SlotRunner,
        transactions: Transactions,
        producer: ProducerIdentity,
        pipes: Pipes | None = None,
    ) -> None:
        """`pipes` are connections that were made before."""
        self._runner = runner
        self._transactions = transactions
        self.producer = producer
        self.pipes = pipes or Pipes(runner)
        self._begun = Begun(Additions(runner, transactions))
        self.committed_at = runner.clock.monotonic()
        self._cadence, self._rounds = Cadence(runner.commits), Rounds(runner)

    # -- transactions

    async def transact(self) -> bool:
        """One transaction of whatever is queued; False when there was nothing to commit.

        Raises:
            AbortError: aborted must it be; the caller does so through `abort`.
            FencedError: the coordinator says that the slot is another's.
            RetakeError: as `check_epoch`.
        """
        runner = self._runner
        await self._gather()
        transaction = self._begin()
        await runner.doubts.ready(self)
        runner.slot.open = transaction.touched
        try:
            await self._send_data(transaction)
            acked_at, first_s = runner.clock.monotonic(), self._begun.first_s
            idle_s = 0.0 if runner.stopping else runner.settings.commit_idle_s
            found = runner.slot.moved_without_data(acked_at, idle_s)
            moved = [each for each in found if not ledger.must_wait(runner, each)]
            positions = transaction.positions(runner.clock.now_ms(), moved)
            if not positions:
                return False
            segment = transaction.segment(runner.number, runner.clock.now_ms())
            await self._look_at_begun(transaction)
            await self._commit(transaction, runner.control_entries(positions, segment))
        except BaseException as error:
            transaction.abandon()
            if isinstance(error, TargetBehindError | SpoiledError):
                raise undone(error) from error
            raise
        now = runner.clock.monotonic()
        runner.slot.committed(positions, now)
        runner.wedges.is_undecided = False
        runner.slot.open = {}
        runner.committed(transaction, positions, now - acked_at)
        self._cadence.committed(now, first_s + now - acked_at)
        return True

    async def commit_control(self, entries: Sequence[ControlEntry]) -> None:
        """A transaction of control records alone: the barrier, first positions, a keep-alive.

        Raises: as `transact`.
        """
        await self._commit(self._begin(), entries)

    async def abort(self) -> None:
        """End the transaction without its data. Only v2 may: v1 needs a new producer id."""
        self.pipes.close()
        if self._begun.may_be_known:  # else it would end the one before again, as an aborted one
            self.producer = await self._transactions.end(self.producer, commit=False)
        self._runner.slot.sequences.clear()

    def close(self) -> None:
        """Close the connections."""
        self._transactions.close()
        self.pipes.close()

    async def connect_to(self, at: TopicPartition) -> None:
        """Be connected to the leader of a partition. Raises: AbortError."""
        await self.pipes.to(self.pipes.node_of(at))

    def _begin(self) -> Transaction:
        self.check_epoch()
        self._begun = Begun(Additions(self._runner, self._transactions))
        for pipe in self.pipes:
            pipe.opened = False
        return Transaction(self._runner.clock.monotonic())

    async def _commit(self, transaction: Transaction, entries: Sequence[ControlEntry]) -> None:
        by_node: dict[int, list[Outgoing]] = {}
        await self._runner.doubts.clear(self, {*(e.at for e in entries), *control_of(self._runner)})
        for entry in entries:
            by_node.setdefault(self.pipes.node_of(entry.at), []).append(self._control(entry))
        requests = [Request(await self.pipes.to(node), items) for node, items in by_node.items()]
        await self._send_firsts(transaction, requests)
        transaction.check()
        self._runner.wedges.is_undecided = True
        producer = await self._transactions.end(self.producer, commit=True)
        if producer != self.producer:
            self._runner.slot.sequences.clear()
        self.producer = producer
        self._runner.doubts.control_ends |= self._begun.written
        self._runner.slot.snapshots.committed()
        self.committed_at = self._runner.clock.monotonic()
        self._runner.meters.told(event for entry in entries for event in entry.events)

    async def _look_at_begun(self, transaction: Transaction) -> None:
        """Where requests name topics (v1) another one of the name takes what is the copy's, and if
        nothing was copied yet it lacks nothing by which that would be noticed.

        Raises: AbortError, also when nobody tells in time.
        """
        begun = [each for each in transaction.touched if not each.committed.next_target]
        if self._transactions.version is TransactionVersion.V2 or not begun:
            return
        names = sorted({each.target.topic for each in begun})
        try:
            found = (await self._runner.target.metadata(names, deadline_s=BEGUN_S)).topics
        except (ConnectionLostError, DeadlineError) as error:
            raise AbortError(f"the topics of new copies were not told: {error}") from error
        for each in begun:
            known, ours = found[each.target.topic].topic_id, each.identity.target_topic_id
            if known not in (NO_TOPIC_ID, ours):
                raise AbortError(f"{each.target} is of another topic than the copy was made for")

    def check_epoch(self) -> None:
        """Whether another transaction may be begun in it. Raises: RetakeError."""
        if self._transactions.must_init_again:
            raise RetakeError("a request of the transaction protocol had to be sent twice (v1)")

    # -- data

    @property
    def _interval_s(self) -> float:
        return commit_interval(self._runner.markers.per_round, self._runner.commits)

    async def _gather(self) -> None:
        """Wait while a transaction now would cost more than it brings."""
        runner = self._runner
        while not runner.stopping:
            supply = supply_of(runner.slot.ready_partitions())
            pause_s = self._cadence.pause_s(runner.clock.monotonic(), self._interval_s, supply)
            silence_s = self.pipes.silence_s(control_of(runner))  # else open for so long
            if max(pause_s, silence_s) <= 0:
                return
            await runner.woken(max(pause_s, silence_s))

    async def _send_data(self, transaction: Transaction) -> None:
        runner, cadence = self._runner, self._cadence
        cadence.began(transaction.opened_at)
        while True:
            await opening.send_again(self._reap(transaction), self._send)
            flying = any(pipe.flights for pipe in self.pipes)
            age = runner.clock.monotonic() - transaction.opened_at
            interval = self._interval_s
            full = runner.stopping or self._is_full(transaction, age, interval)
            self._begun.look_at = 0 if full else runner.depth.refill
            supply = supply_of(chain(transaction.touched, runner.slot.ready_partitions()))
            if not full and await self._fill(transaction, supply):
                continue
            ends = full or not transaction.touched or cadence.may_close(age, interval, supply)
            if not flying and ends:
                return
            await runner.woken(max(interval - age, 0.001) if not flying else 1.0)

    def _is_full(self, transaction: Transaction, age_s: float, interval_s: float) -> bool:
        policy = self._runner.commits
        longest = max(interval_s, busy_for(self._cadence.overhead_s, policy))
        much = transaction.sent_bytes >= LONGEST_BYTES or self.pipes.is_silent
        return much or must_close(age_s, longest, policy)

    async def _fill(self, transaction: Transaction, supply: Supply) -> bool:
        """Send what is at hand to every broker with room; whether anything was sent."""
        until = self._cadence.takes_until(transaction.opened_at, supply)
        able = await self._able(transaction, until)
        requests, full = self._rounds.next(transaction, self.producer, able)
        if not requests:
            if full and not transaction.touched:  # none is open: that would not wait for them
                await self._runner.woken(min(each.wait_s(self._runner.wake) for each in full))
            return False
        self._runner.queues_fell()
        if self._transactions.version is TransactionVersion.V1:
            await self._begun.additions.add(self.producer, requests)
        for pipe, items in requests:
            if pipe.opened:
                self._send(pipe, items)
        if firsts := [each for each in requests if not each.pipe.opened]:
            await self._send_firsts(transaction, firsts)
        elif until == inf and self._transactions.version is TransactionVersion.V2:
            self._send_on(transaction, able)
        if self._rounds.opened:  # that took up to some 10 ms of the loop, which is everybody's
            await asyncio.sleep(0)
        return True

    async def _able(self, transaction: Transaction, until: float) -> list[Able]:
        """The brokers that take more, with what has waited for them since `until` or longer."""
        able: list[Able] = []
        for node, partitions in by_node(self._runner, transaction, until).items():
            pipe = await self.pipes.to(node)
            if len(pipe.flights) >= self._runner.depth.limit:
                continue
            if pipe.lane.connection.must_wait and not pipe.silence_s:
                await pipe.room()
            able.append(Able(node, pipe, partitions))
        is_v2 = self._transactions.version is TransactionVersion.V2
        transaction.has_rivals = is_v2 and self.pipes.are_several
        return able

    def _send_on(self, transaction: Transaction, able: list[Able]) -> None:
        """Send all else of a backlog that the pipes take: a look at everything for each request
        costs as much as the request.

        Nothing was awaited since `able` was true. (v1 would be told of partitions before.) A broker
        that had no room for its first request a moment ago, and has some now, waits for the next
        look: what follows a first request before its answer is taken for the first.
        """
        depth = self._runner.depth.limit
        able = [each for each in able if each.pipe.opened]
        while not self._rounds.opened and transaction.sent_bytes < LONGEST_BYTES:
            able = [each for each in able if each.pipe.takes(depth)]
            requests, _ = self._rounds.next(transaction, self.producer, able)
            if not requests:
                return
            for pipe, items in requests:
                self._send(pipe, items)

    def _control(self, entry: ControlEntry) -> Outgoing:
        topic_id = self._runner.targets.topic_id(entry.at.topic) or NO_TOPIC_ID
        made = stamped(self._runner, self.producer, entry.at, topic_id, entry.batch)
        return Outgoing(None, entry.batch, made)

    # -- requests and answers

    def _send(self, pipe: Pipe, items: list[Outgoing]) -> None:
        answer = self._request(pipe, items)
        pipe.unanswered += 1
        answer.add_done_callback(partial(self._answered, pipe))
        pipe.flights.append(Flight(answer, items))

    def _answered(self, pipe: Pipe, answer: asyncio.Future[list[ProduceAck]]) -> None:
        """Wake the sender when a look is worth it: several places free, all answered, trouble."""
        pipe.unanswered -= 1
        failed = answer.cancelled() or answer.exception() is not None
        if failed or pipe.unanswered <= self._begun.look_at:
            self._runner.wake()

    def _request(self, pipe: Pipe, items: list[Outgoing]) -> asyncio.Future[list[ProduceAck]]:
        runner = self._runner
        timeout_ms = runner.settings.produce_timeout_ms
        answer = pipe.request(items, timeout_ms=timeout_ms)
        self._begun.is_sent = True
        return answer

    async def _send_firsts(self, transaction: Transaction, requests: list[Request]) -> None:
        """Send each alone to its broker, again while the coordinator still ends the transaction
        before: side by side where nobody is kept waiting by another one.
        """
        if not requests:
            return
        began = self._runner.clock.monotonic()
        if await self._begun.additions.add(self.producer, requests):
            await self._send_together(transaction, requests)
        else:
            for each in requests:
                await self._send_together(transaction, [each])
        self._begun.first_s += self._runner.clock.monotonic() - began

    async def _send_together(self, transaction: Transaction, requests: list[Request]) -> None:
        clock = self._runner.clock
        began = clock.monotonic()
        while requests:
            again: list[Request] = []
            refused: list[ProduceAck] = []
            answers = await self._answers_of(requests)
            for (pipe, items), acks in zip(requests, answers, strict=True):
                left = self._take(transaction, items, acks, first=not pipe.opened)
                if left:
                    again.append(Request(pipe, left))
                    refused += acks
                else:
                    pipe.opened = True
            requests = again
            if requests:
                await self._runner.wedges.refused(refused, clock.monotonic() - began)
                await asyncio.sleep(FIRST_AGAIN_S)

    async def _answers_of(self, requests: list[Request]) -> list[list[ProduceAck]]:
        for each in requests:
            await each.pipe.room()  # its login may be due: some brokers get control records alone
        asked = [self._request(pipe, items) for pipe, items in requests]
        await asyncio.gather(*asked, return_exceptions=True)
        return [acks_of(each) for each in asked]

    def _reap(self, transaction: Transaction) -> list[Request]:
        """Take every answer that has come, in order; what is to be sent again."""
        again = []
        for pipe in self.pipes:
            while pipe.flights and pipe.flights[0].answer.done():
                flight = pipe.flights.popleft()
                acks = acks_of(flight.answer)
                if left := self._take(transaction, flight.items, acks, first=False):
                    again.append(Request(pipe, left))
        return again

    def _take(
        self,
        transaction: Transaction,
        items: list[Outgoing],
        acks: Sequence[ProduceAck],
        *,
        first: bool,
    ) -> list[Outgoing]:
        """Book the acknowledged batches; give back those to send again."""
        by_partition = {(ack.topic, ack.partition): ack for ack in acks}
        again = []
        now = self._runner.clock.monotonic()
        for item in items:
            partition, _, entry = item
            ack = by_partition.get((entry.topic, entry.partition))
            if ack is None:
                raise AbortError(f"no word on {entry.topic}-{entry.partition}")
            if ack.error is ErrorCode.NONE:
                if partition is None:
                    self._written(item.at, ack.base_offset)
                else:
                    queued = transaction.acknowledged(partition, ack.base_offset)
                    self._runner.meters.acknowledged(partition, queued, ack.base_offset, now)
                continue
            may = first or opening.is_not_added(self._runner, transaction, item, ack.error)
            if (action := produce_action(ack.error, first=may)) is Action.SEND_AGAIN:
                again.append(item)
            else:
                raise refusal(self._runner, item, ack, action)
        return again

    def _written(self, at: TopicPartition, offset: int) -> None:
        """A control record was appended. Raises: AbortError where its log lost what it had."""
        ends = self._runner.doubts.control_ends
        if offset < ends.get(at, 0):
            ends[at] = offset
            self._runner.slot.snapshots.lost()
            raise AbortError(f"{at} lost records that it had acknowledged: it goes on at {offset}")
        self._begun.written[at] = offset + 1
