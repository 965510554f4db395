"""Connections that all callers of a process share, one an address.

An address is opened once at a time, however many wait for it, and what comes of it is theirs
together. Who gives up leaves the opening to the others: the next one finds it further on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka.connection import Connection

Connect = Callable[[str, int], Awaitable[Connection]]
"""Opens a connection to a host and port, and ends by a deadline of its own."""


class Pool:
    """Its tasks end with what they open, or with `close`."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}

    def has(self, address: str) -> bool:
        """Whether the connection to an address is open now."""
        connection = self._open.get(address)
        return connection is not None and not connection.closed

    async def get(self, address: str) -> Connection:
        """The connection to an address, opened again when it has ended; the caller bounds the wait.

        Raises: what the connector raised; ConnectionLostError when the pool was closed meanwhile.
        """
        if self.has(address):
            return self._open[address]
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.create_task(self._begin(address), name=f"open:{address}")
            opening.add_done_callback(partial(self._ended, address))
            self._opening[address] = opening
        await asyncio.wait((opening,))  # which it outlives when we are cancelled
        if opening.cancelled():
            raise ConnectionLostError(f"connecting to {address} was given up.")
        return opening.result()

    async def close(self) -> list[Connection]:
        """Give up what is being opened; the connections, which the caller closes."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        connections = list(self._open.values())
        self._open.clear()
        return connections

    async def _begin(self, address: str) -> Connection:
        host, _, port = address.rpartition(":")
        connection = await self._connect(host.strip("[]"), int(port))
        self._open[address] = connection
        return connection

    def _ended(self, address: str, opening: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not opening.cancelled():
            opening.exception()  # of one that nobody waits for any more there must be no log line
