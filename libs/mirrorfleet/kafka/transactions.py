"""The transaction coordinator's side of a transactional id: begin an epoch, add, end.

    V2   init -> (produce ... -> end -> next epoch)*       the broker adds partitions (KIP-890)
    V1   init -> (add -> produce ... -> end)*              the same epoch until the next init

Only retries whose meaning is fixed are done here: the coordinator moved, is loading, still writes
the markers of the transaction before, or the outcome is unknown and the same request again has the
same effect. Fencing is never answered with another init.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final, TypeVar

from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v3.request import EndTxnRequest as EndTxnRequestV3
from kio.schema.end_txn.v3.response import EndTxnResponse as EndTxnResponseV3
from kio.schema.end_txn.v5.request import EndTxnRequest as EndTxnRequestV5
from kio.schema.end_txn.v5.response import EndTxnResponse as EndTxnResponseV5
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from mirrorfleet.copying.faults import FENCING
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError, FencedError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.core.ports import Dice
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of, milliseconds
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.coordinator import COORDINATOR_MOVED, CoordinatorConnection, CoordinatorKind
from mirrorfleet.kafka.versions import TransactionVersion

__all__ = ["TransactionVersion", "Transactions"]

T = TypeVar("T")

_ATTEMPT_S: Final = 5.0
"""Time for one answer: well within transaction.timeout, so that there is time to send again."""

_CONCURRENT_PAUSE_S: Final = 0.02
"""Pause on CONCURRENT_TRANSACTIONS, as the Java client's for a first partition."""

_NOT_DONE: Final = frozenset(
    {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The coordinator did nothing; the request again is the first one."""

_MAYBE_DONE: Final = COORDINATOR_MOVED | {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
"""The coordinator may have written its log before it failed (a failed append is answered
COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR: TransactionStateManager.appendTransactionToLog)."""


_OF_A_PARTITION: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What is said to an addition of one partition; all else is about the transaction, said to each."""


class NotAddedError(BrokerError):
    """Raised for the partition because of which nothing was added to the transaction."""

    def __init__(self, code: ErrorCode, where: str, at: TopicPartition) -> None:
        super().__init__(code, where)
        self.at = at


class Transactions:
    """The coordinator's requests for one transactional id, one at a time."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        version: TransactionVersion,
        *,
        dice: Dice | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.version = version
        self.resent = False
        """Whether an EndTxn or AddPartitionsToTxn of this epoch may have reached the coordinator
        twice."""
        self._dice = dice or cluster.dice
        self._where = f"{cluster.name}: transactional id {transactional_id}"
        self._coordinator = CoordinatorConnection(
            cluster, transactional_id, CoordinatorKind.TRANSACTION
        )

    @property
    def must_init_again(self) -> bool:
        """V1 when something was `resent`: before its next transaction, for the late copy would act
        on that (KAFKA-17754).
        """
        return self.resent and self.version is TransactionVersion.V1

    async def init_producer_id(
        self, *, timeout_ms: int, deadline_s: float = 30.0
    ) -> ProducerIdentity:
        """A new epoch; an open transaction of any earlier one is aborted first.

        `timeout_ms` is the transaction time-out that the coordinator enforces. When this returns,
        all markers of earlier transactions are written.

        Raises: FencedError, BrokerError (not allowed, time-out out of bounds), DeadlineError (with
        what stood in the way), AuthenticationError, UnsupportedError.
        """
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self.transactional_id),
            transaction_timeout=milliseconds(timeout_ms),
        )

        async def attempt(connection: Connection, left_s: float) -> ProducerIdentity:
            answer = await call(connection, request, InitProducerIdResponse, left_s)
            self._check(code_of(answer.error_code), "InitProducerId")
            return ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))

        identity = await self._until_deadline("InitProducerId", attempt, deadline_s)
        self.resent = False
        return identity

    async def add_partitions(
        self,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        *,
        deadline_s: float = 30.0,
        busy_s: float = inf,
    ) -> None:
        """Add partitions to the open transaction, or begin one with them; all of them or none.

        V1 must, V2 may (its brokers add what they are sent; KIP-890). What passes is waited for
        `busy_s` at most: markers of the transaction before, a topic that this broker does not see.

        Raises: as `init_producer_id`; NotAddedError for the first partition that was refused, and
        BrokerError for the transaction, for good or after `busy_s`.
        """
        topics: dict[str, list[i32]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(i32(partition))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self.transactional_id),
            v3_and_below_producer_id=ProducerId(producer.producer_id),
            v3_and_below_producer_epoch=i16(producer.epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(numbers))
                for name, numbers in topics.items()
            ),
        )

        async def attempt(connection: Connection, left_s: float) -> None:
            answer = await call(connection, request, AddPartitionsToTxnResponse, left_s)
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    code = code_of(result.partition_error_code)
                    if code in {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}:
                        continue
                    at = TopicPartition(str(topic.name), int(result.partition_index))
                    where = f"AddPartitionsToTxn {at}"
                    if code in _OF_A_PARTITION:
                        raise NotAddedError(code, f"{self._where}: {where}", at)
                    self._check(code, where)

        await self._until_deadline("AddPartitionsToTxn", attempt, deadline_s, busy_s)

    async def end(
        self, producer: ProducerIdentity, *, commit: bool, deadline_s: float = 30.0
    ) -> ProducerIdentity:
        """Commit or abort; the identity for the next transaction (V1: the same).

        On time-out, disconnect or a coordinator error the same (id, epoch, result) is sent again,
        and `resent` says so. V1 must not abort this way: the same
        sequences would be answered as duplicates.

        Raises: as `init_producer_id`; on DeadlineError the outcome is unknown. BrokerError
        TRANSACTION_ABORTABLE: abort instead. ValueError for a V1 abort.
        """
        if self.version is TransactionVersion.V1 and not commit:
            raise ValueError("an abort of transactions v1 is an init_producer_id, never an EndTxn")

        async def attempt_v1(connection: Connection, left_s: float) -> ProducerIdentity:
            request = EndTxnRequestV3(
                transactional_id=TransactionalId(self.transactional_id),
                producer_id=ProducerId(producer.producer_id),
                producer_epoch=i16(producer.epoch),
                committed=commit,
            )
            answer = await call(connection, request, EndTxnResponseV3, left_s)
            self._check(code_of(answer.error_code), "EndTxn")
            return producer

        async def attempt_v2(connection: Connection, left_s: float) -> ProducerIdentity:
            request = EndTxnRequestV5(
                transactional_id=TransactionalId(self.transactional_id),
                producer_id=ProducerId(producer.producer_id),
                producer_epoch=i16(producer.epoch),
                committed=commit,
            )
            answer = await call(connection, request, EndTxnResponseV5, left_s)
            self._check(code_of(answer.error_code), "EndTxn")
            return ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))

        attempt = attempt_v1 if self.version is TransactionVersion.V1 else attempt_v2
        return await self._until_deadline("EndTxn", attempt, deadline_s)

    async def connect(self, deadline_s: float) -> None:
        """Find the coordinator and connect, so that the first request need not.

        Raises: as `CoordinatorConnection.get`.
        """
        await self._coordinator.get(deadline_s)

    def close(self) -> None:
        """Close the connection to the coordinator."""
        self._coordinator.drop()

    async def _until_deadline(
        self,
        what: str,
        attempt: Callable[[Connection, float], Awaitable[T]],
        deadline_s: float,
        busy_s: float = inf,
    ) -> T:
        """Do `attempt` until it succeeds, fails for good, or time is up; once `busy_s` are over, no
        refusal is waited for.
        """
        attempts = Attempts(f"{self._where}: {what}", deadline_s, self._dice)
        attempt_s = min(_ATTEMPT_S, deadline_s / 3)
        while True:
            sent = False
            try:
                connection = await self._coordinator.get(
                    attempts.left_s, find_s=min(attempts.left_s, attempt_s)
                )
                attempts.check("before it was sent")  # who slept may not be who may any more
                sent = True
                return await attempt(connection, min(attempts.left_s, attempt_s))
            except (ConnectionLostError, DeadlineError) as error:
                self._coordinator.drop()
                self.resent = self.resent or sent
                await attempts.pause(error)
            except BrokerError as error:
                if deadline_s - attempts.left_s >= busy_s:
                    raise
                await self._after_refusal(error, attempts, sent=sent)

    async def _after_refusal(self, error: BrokerError, attempts: Attempts, *, sent: bool) -> None:
        """Pause before the next attempt, or raise when there must be none."""
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            await attempts.pause(error, at_most_s=_CONCURRENT_PAUSE_S)
        elif error.code in _NOT_DONE or (error.retriable and error.code not in _MAYBE_DONE):
            await attempts.pause(error)
        elif error.code in _MAYBE_DONE:
            self._coordinator.drop()
            self.resent = self.resent or sent
            await attempts.pause(error)
        else:
            raise error

    def _check(self, code: ErrorCode, what: str) -> None:
        """Raises: FencedError, BrokerError unless `code` is NONE."""
        if code in FENCING:
            raise FencedError(
                f"{self._where}: {what}: {code.name}: another owner has it.",
                hint="Drop the slot; take it again only as a member of the current generation.",
            )
        if code is not ErrorCode.NONE:
            raise BrokerError(code, f"{self._where}: {what}")
