"""Writing records of ours to control topics so that a process that lost its place cannot.

    take (InitProducerId) ─> write: one transaction ─> write ─> ... ─> refused: another one took it

Each `write` is a transaction of one transactional id, seen whole or not at all by read_committed
readers. After anything but a clear success the id is taken again before the next attempt, and only
if `may_take` says that the place is still ours: one that slept must not fence its heir. It is asked
once more when the id is ours: a machine that slept in between has fenced it, and must not write.

An id with which somebody else writes more than this (`LeftOpen`) is settled with each take:

    look ─> InitProducerId ─> settle: markers that its coordinator forgot ─> write
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mirrorfleet.copying.faults import Action, produce_action
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, FencedError, MirrorfleetError, NotOursError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_writer import Entry
from mirrorfleet.kafka.left_open import LeftOpen
from mirrorfleet.kafka.producer import ProduceEntry, ProduceLane
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.wire.copybatch import CopyBatch
from mirrorfleet.wire.records import control_batch
from mirrorfleet.wire.rewrite import stamp

BY_ORDER_S: Final = 60.0
"""For what operators write or take: the markers of the transaction that is aborted are awaited."""
_TIMEOUT_MS: Final = 15_000
"""The coordinator aborts what a dead process left open after this."""
_ANSWER_S: Final = 5.0
"""For an answer beyond the broker's own time-out: one that is frozen must not cost all attempts."""
_AGAIN_S: Final = 0.02
"""As the Java client: the coordinator still writes the markers of the transaction before."""
_OPEN_S: Final = 10.0
"""For how long a refused batch is sent again: of what the coordinator has aborted meanwhile brokers
say that somebody else took the id."""


async def by_order() -> bool:
    """A `may_take` for operators: their word stands above that of any group."""
    return True


class FencedWriter:
    """One write at a time, by the one process that has the transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        may_take: Callable[[], Awaitable[bool]],
        on_taken: Callable[[], Awaitable[None]] | None = None,
        left_open: LeftOpen | None = None,
        deadline_s: float = 30.0,
        version_of: Callable[[Cluster], Awaitable[TransactionVersion]] = (
            Cluster.transaction_version
        ),
    ) -> None:
        """`on_taken` looks, after each take, whether what is to be written is still right.

        Nobody else can write meanwhile without fencing us; what it raises ends the write. By then
        nothing is open any more that the id had `left_open`.
        """
        self._cluster = cluster
        self._id = transactional_id
        self._may_take = may_take
        self._on_taken = on_taken
        self._left_open = left_open
        self._deadline_s = deadline_s
        self._version_of = version_of
        self._transactions: Transactions | None = None
        self._producer: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._lane: ProduceLane | None = None
        self._node = -1

    async def take(self) -> None:
        """Fence whoever had the id before; what it left open is aborted when this returns.

        Raises: NotOursError; as `Transactions.init_producer_id`,
        LeftOpenError, and what `on_taken` does.
        """
        self._producer = None
        self._sequences.clear()
        await self._check_place()
        if self._transactions is None:
            version = await self._version_of(self._cluster)
            self._transactions = Transactions(self._cluster, self._id, version)
        if self._left_open is not None:
            await self._left_open.look()
        producer = await self._transactions.init_producer_id(
            timeout_ms=_TIMEOUT_MS, deadline_s=self._deadline_s
        )
        # before it we may have slept, and have fenced our heir; who comes after it fences us
        await self._check_place()
        if self._left_open is not None:
            producer = await self._left_open.settle(self._transactions, producer)
        if self._on_taken is not None:
            await self._on_taken()
        self._producer = producer

    async def _check_place(self) -> None:
        if not await self._may_take():
            raise NotOursError(f"{self._id}: another process is active, or nobody can say.")

    async def write(self, tp: TopicPartition, entries: Sequence[Entry], now_ms: int) -> None:
        """Write records of time `now_ms` in one batch and transaction: all of them or none.

        Raises: FencedError (another process took the id), NotOursError as `take`, DeadlineError
        (it is not known whether they are written), BrokerError (not allowed, too large).
        """
        batch = control_batch(entries, now_ms)
        where = f"{self._cluster.name}: writing {tp}"
        attempts = Attempts(where, self._deadline_s, self._cluster.dice)
        while True:
            try:
                if self._producer is None:
                    await self.take()
                await self._transact(tp, batch, attempts)
            except MirrorfleetError as error:
                self._producer = None
                self._drop_lane()
                self._cluster.forget_leaders(tp.topic)
                if not error.retriable:
                    raise
                await attempts.pause(error)
            else:
                return

    def close(self) -> None:
        """Close the connections."""
        self._drop_lane()
        if self._transactions is not None:
            self._transactions.close()

    async def _transact(self, tp: TopicPartition, batch: CopyBatch, attempts: Attempts) -> None:
        transactions, producer = self._transactions, self._producer
        if transactions is None or producer is None:
            raise NotOursError(f"{self._id} is not taken.")
        self._producer = None  # until the outcome is known
        if transactions.version is TransactionVersion.V1:
            await transactions.add_partitions(producer, [tp], deadline_s=attempts.left_s)
        await self._append(tp, batch, producer, transactions.version, attempts)
        following = await transactions.end(producer, commit=True, deadline_s=attempts.left_s)
        if following == producer:
            self._sequences[tp] = self._sequences.get(tp, 0) + batch.count
        else:
            self._sequences.clear()
        if not transactions.resent:
            self._producer = following

    async def _append(
        self,
        tp: TopicPartition,
        batch: CopyBatch,
        producer: ProducerIdentity,
        version: TransactionVersion,
        attempts: Attempts,
    ) -> None:
        header = stamp(batch, producer, self._sequences.get(tp, 0), transactional=True)
        leader = await self._cluster.leader(tp)
        topic = await self._cluster.topic(tp.topic)
        entry = ProduceEntry(tp.topic, topic.topic_id, tp.partition, header, batch.payload)
        lane = await self._lane_to(leader.node_id, version)
        where = f"{self._cluster.name}: writing {tp} as {self._id}"
        given_up_at_s = attempts.left_s - _OPEN_S
        while True:
            await lane.ready()
            (ack,) = await lane.send((entry,))
            if ack.error is ErrorCode.NONE:
                return
            error = BrokerError(ack.error, where, detail=ack.message or "")
            match produce_action(ack.error, first=True):
                case Action.SEND_AGAIN if ack.error is ErrorCode.CONCURRENT_TRANSACTIONS:
                    await attempts.pause(error, at_most_s=_AGAIN_S)
                case Action.SEND_AGAIN if attempts.left_s > given_up_at_s:
                    await attempts.pause(error)
                case Action.FENCED:
                    raise FencedError(f"{error}: another process took over.") from error
                case _:
                    raise error

    async def _lane_to(self, node: int, version: TransactionVersion) -> ProduceLane:
        """The one connection of this id to a broker."""
        lane = self._lane
        if lane is None or lane.connection.closed or node != self._node:
            self._drop_lane()
            connection = await self._cluster.connect(node, purpose=f"write {self._id}")
            lane = ProduceLane(
                connection,
                transactional_id=self._id,
                transactions=version,
                deadline_s=_ANSWER_S,
            )
            self._lane, self._node = lane, node
        return lane

    def _drop_lane(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None


async def write_by_order(
    cluster: Cluster,
    transactional_id: str,
    control: Sequence[TopicPartition],
    entries: Sequence[Entry],
    now_ms: int,
    *,
    what: str,
    on_taken: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Write once with the id of an owner who may live, and take it back before our records.

    It is fenced then; who takes the id later finds what was written. `what` names this in errors.
    Our records go to the first of `control`, the partitions that each transaction of the owner
    writes to: our marker must not end what is open there, and who takes the id later must not think
    that the owner's last transaction ended like ours.

    Raises: as `FencedWriter.write`; DeadlineError when the owner is always faster, or when nobody
    could tell or end what was left open: then nothing was written.
    """
    left_open = LeftOpen(cluster, transactional_id, control, _TIMEOUT_MS)
    attempts = Attempts(f"{cluster.name}: {what} {transactional_id}", BY_ORDER_S, cluster.dice)
    while True:
        writer = FencedWriter(
            cluster,
            transactional_id,
            may_take=by_order,
            on_taken=on_taken,
            left_open=left_open,
            deadline_s=attempts.left_s,
            # a broker that nobody reaches must keep nobody from fencing what the others have
            version_of=Cluster.version_of_those_there,
        )
        try:
            await cluster.leader(control[0])  # known before the id is taken: its owner is quick
            await writer.write(control[0], entries, now_ms)
        except FencedError as error:
            await attempts.pause(error)
        else:
            return
        finally:
            writer.close()
