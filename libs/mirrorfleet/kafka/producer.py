"""Writing batches to one broker: one connection, many requests in flight, answers in order.

A lane never sends anything twice; what an error means is the caller's business. Exactly one lane
per transactional id and broker (a second request of the same id evicts the first from the
broker's verification queue: AddPartitionsToTxnManager), which is the caller's business too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mirrorfleet.core.errors import UnsupportedError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka.call import ready_within
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.frames import Frame
from mirrorfleet.kafka.versions import TransactionVersion
from mirrorfleet.wire.k00_produce import (
    API_KEY,
    LAST_V1_TRANSACTIONS,
    MAX_VERSION,
    MIN_VERSION,
    ProduceAck,
    ProduceEntry,
    Topics,
    decode_produce,
    encode_head,
    encode_produce,
)
from mirrorfleet.wire.topic_refs import FIRST_WITH_TOPIC_IDS

__all__ = ["ProduceAck", "ProduceEntry", "ProduceLane"]

_FIRST_V2_TRANSACTIONS: Final = LAST_V1_TRANSACTIONS + 1
_ALL: Final = -1
"""The number of acks=all."""


class ProduceLane:
    """Produces to one broker for one producer."""

    def __init__(
        self,
        connection: Connection,
        *,
        transactional_id: str | None = None,
        transactions: TransactionVersion = TransactionVersion.V2,
        deadline_s: float = 30.0,
    ) -> None:
        """The lane owns `connection`. `deadline_s` is the time for an answer beyond `timeout_ms`.

        With a transactional id, `transactions` decides the versions: V1 at most 11, V2 at least 12.
        Raises: UnsupportedError when the broker has none of them.
        """
        if connection.versions is None:
            raise UnsupportedError(f"{connection.peer}: versions were not negotiated.")
        lowest, highest = MIN_VERSION, MAX_VERSION
        if transactional_id is not None and transactions is TransactionVersion.V1:
            highest = LAST_V1_TRANSACTIONS
        elif transactional_id is not None:
            lowest = _FIRST_V2_TRANSACTIONS
        self.connection = connection
        self._version = connection.versions.highest(API_KEY, lowest, highest)
        self._transactional_id = transactional_id
        self._deadline_s = deadline_s
        self._heads: dict[int, bytes] = {}
        self._topics = Topics(self._version)

    async def ready(self) -> None:
        """Wait until the connection takes more; call it before `send`.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError.
        """
        await ready_within(self.connection, self._deadline_s)

    def send(
        self, entries: Sequence[ProduceEntry], *, timeout_ms: int = 5000
    ) -> asyncio.Future[list[ProduceAck]]:
        """Write one request now; the future gives an ack per partition.

        The broker waits `timeout_ms` for its followers (acks=all). The payloads must not change
        until the answer. Raises: ValueError when a partition is listed twice; ConnectionLostError
        when the connection is closed. The future raises ConnectionLostError or DeadlineError: the
        outcome is unknown then.
        """
        version = self._version_for(entries)
        head = self._heads.get(timeout_ms)
        if head is None:
            head = self._heads[timeout_ms] = encode_head(self._transactional_id, _ALL, timeout_ms)
        topics = self._topics
        if topics.version != version:
            topics = self._topics = Topics(version)

        def read(frame: Frame, start: int) -> list[ProduceAck]:
            found, throttle_ms = decode_produce(version, frame, start, topics.names)
            if throttle_ms:
                self.connection.throttle(throttle_ms)
            return found

        return self.connection.request(
            API_KEY,
            version,
            encode_produce(topics, head, entries),
            read,
            flexible=True,
            deadline_s=timeout_ms / 1000 + self._deadline_s,
        )

    def close(self) -> None:
        """Close the connection; what is in flight raises ConnectionLostError."""
        self.connection.close()

    def _version_for(self, entries: Sequence[ProduceEntry]) -> int:
        """By id when every topic has one (v13 refuses a recreated topic by itself)."""
        if self._version < FIRST_WITH_TOPIC_IDS:
            return self._version
        for entry in entries:
            if entry.topic_id is NO_TOPIC_ID or not entry.topic_id.int:
                return FIRST_WITH_TOPIC_IDS - 1
        return self._version
