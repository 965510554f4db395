"""The broker that coordinates a transactional id or a group, and a connection to it."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Final

from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.static.primitive import i8

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.connection import Connection


class CoordinatorKind(IntEnum):
    """What is coordinated."""

    GROUP = 0
    TRANSACTION = 1


COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
"""Answers that mean: find the coordinator again."""


async def find_coordinator(
    cluster: Cluster, key: str, kind: CoordinatorKind, deadline_s: float
) -> int:
    """The node that coordinates `key` now.

    Raises: BrokerError (COORDINATOR_NOT_AVAILABLE is usual while its topic is being made), and
    as `Cluster.ask`.
    """
    request = FindCoordinatorRequest(key=key, key_type=i8(kind))
    answer = await cluster.ask(request, FindCoordinatorResponse, deadline_s=deadline_s)
    code = code_of(answer.error_code)
    if code is not ErrorCode.NONE:
        where = f"{cluster.name}: coordinator of {key}"
        raise BrokerError(code, where, detail=answer.error_message or "")
    return int(answer.node_id)


class CoordinatorConnection:
    """A connection of our own to a coordinator, made again when it moved or ended."""

    def __init__(self, cluster: Cluster, key: str, kind: CoordinatorKind) -> None:
        self._cluster = cluster
        self._key = key
        self._kind = kind
        self._connection: Connection | None = None
        self.node = -1
        """Who the last connection is to."""

    async def get(self, deadline_s: float, *, find_s: float | None = None) -> Connection:
        """The connection; `find_s` is for the coordinator's name alone.

        Raises: as `find_coordinator` and `Cluster.connect`.
        """
        connection = self._connection
        if connection is None or connection.closed:
            try:  # also for the connection: a host that vanished takes none for long
                async with asyncio.timeout(deadline_s):
                    connection = self._connection = await self._made(find_s or deadline_s)
            except TimeoutError:
                where = f"{self._cluster.name}: coordinator of {self._key}"
                raise DeadlineError(f"{where}: no connection in {deadline_s:g} s") from None
        return connection

    async def _made(self, find_s: float) -> Connection:
        node_id = await find_coordinator(self._cluster, self._key, self._kind, find_s)
        purpose = f"{self._kind.name.lower()} {self._key}"
        made = await self._cluster.connect(node_id, purpose=purpose)
        self.node = node_id
        return made

    def drop(self) -> None:
        """Find the coordinator again next time."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
