"""Reading batches from one broker: one connection, one incremental fetch session.

A lane asks for what it was told to want and gives byte ranges of the answer; it does not look at
batches and does not move positions. After an answer with data the caller wants the next point
(else the same bytes come again) or forgets the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, UnsupportedError
from mirrorfleet.core.ids import TopicId
from mirrorfleet.kafka.call import ready_within
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.fetch_session import FetchPlan, FetchSession
from mirrorfleet.kafka.frames import Frame
from mirrorfleet.wire.k01_fetch import (
    API_KEY,
    MAX_VERSION,
    MIN_VERSION,
    FetchAnswer,
    FetchedPartition,
    FetchPoint,
    FetchTerms,
    Isolation,
    decode_fetch,
    encode_fetch,
)
from mirrorfleet.wire.topic_refs import TopicRef

__all__ = ["FetchLane", "FetchPoint", "Fetched", "FetchedPartition"]

_SESSION_ATTEMPTS: Final = 3


class Fetched(NamedTuple):
    """An answer. `buffer` is the whole frame and belongs to the caller."""

    buffer: bytes | bytearray
    partitions: list[FetchedPartition]
    throttle_ms: int


class FetchLane:
    """Fetches what is committed from one broker; one request at a time."""

    def __init__(
        self,
        connection: Connection,
        *,
        deadline_s: float = 30.0,
        in_session: bool = True,
    ) -> None:
        """The lane owns `connection`. `deadline_s` is the time for an answer beyond `max_wait_ms`.

        Without a session each request is about what is wanted then, and nothing is remembered.
        Raises: UnsupportedError when the broker has no Fetch v12 (Kafka < 2.7).
        """
        if connection.versions is None:
            raise UnsupportedError(f"{connection.peer}: versions were not negotiated.")
        self.connection = connection
        self.rack = ""
        """Where we are, as the next request tells it: the broker may name a closer replica to fetch
        from (KIP-392)."""
        self._deadline_s = deadline_s
        version = connection.versions.highest(API_KEY, MIN_VERSION, MAX_VERSION)
        self._session = FetchSession(version, kept=in_session)

    def want(self, point: FetchPoint) -> None:
        """Fetch this partition from this point on; replaces the point before."""
        self._session.want(point)

    def forget(self, topic_id: TopicId, partition: int, topic: str = "") -> None:
        """Fetch this partition no more. `topic` is needed only where there is no topic id."""
        self._session.forget(topic_id, partition, topic)

    async def fetch(self, *, max_bytes: int, min_bytes: int = 1, max_wait_ms: int) -> Fetched:
        """One answer: only partitions with data, news or an error are in it.

        Session errors are handled here, with a new full session. Partition errors are in the
        answer. Raises: ValueError when nothing is wanted (the broker would answer at once, for
        ever); ConnectionLostError, DeadlineError, AuthenticationError; BrokerError for an error of
        the whole request.
        """
        if not len(self._session):
            raise ValueError("nothing is wanted of this lane")
        error = ErrorCode.NONE
        for _ in range(_SESSION_ATTEMPTS):
            await ready_within(self.connection, self._deadline_s)
            plan = self._session.plan()
            answer, frame = await self._ask(plan, max_bytes, min_bytes, max_wait_ms)
            self.connection.throttle(answer.throttle_ms)
            error = answer.error
            if self._session.accept(error, answer.session_id):
                break
        if error is not ErrorCode.NONE:
            raise BrokerError(error, f"{self.connection.peer}: Fetch")
        return Fetched(frame, answer.partitions, answer.throttle_ms)

    def close(self) -> None:
        """Close the connection; a running `fetch` raises ConnectionLostError."""
        self.connection.close()

    def _ask(
        self, plan: FetchPlan, max_bytes: int, min_bytes: int, max_wait_ms: int
    ) -> asyncio.Future[tuple[FetchAnswer, Frame]]:
        terms = FetchTerms(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=Isolation.READ_COMMITTED,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            rack=self.rack,
        )
        body = encode_fetch(plan.version, terms, plan.points, plan.forgotten)
        names: Mapping[bytes, TopicRef] = self._session.names

        def read(frame: Frame, start: int) -> tuple[FetchAnswer, Frame]:
            return decode_fetch(plan.version, frame, start, names), frame

        return self.connection.request(
            API_KEY,
            plan.version,
            (body,),
            read,
            flexible=True,
            deadline_s=max_wait_ms / 1000 + self._deadline_s,
        )
