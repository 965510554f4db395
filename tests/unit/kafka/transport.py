"""A transport in memory: what was written, and answers put in by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mirrorfleet.kafka.connection import Connection


class MemoryTransport(asyncio.Transport):
    """Keeps the parts as they were handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[object] = []
        self.aborted = False

    @property
    def written(self) -> bytes:
        """All bytes so far."""
        return b"".join(bytes(part) for part in self.parts)  # type: ignore[call-overload] # parts

    def writelines(self, list_of_data: Iterable[object]) -> None:
        self.parts.extend(list_of_data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[Connection, MemoryTransport]:
    """A connection that believes it is open."""
    connection, transport = Connection("b:9092", "me"), MemoryTransport()
    connection.connection_made(transport)
    return connection, transport


def answer(connection: Connection, correlation: int, body: bytes) -> None:
    """Have the broker answer."""
    raw(connection, (4 + len(body)).to_bytes(4, "big") + correlation.to_bytes(4, "big") + body)


def raw(connection: Connection, data: bytes) -> None:
    """Have the broker send bytes."""
    room = connection.get_buffer(-1)
    room[: len(data)] = data
    connection.buffer_updated(len(data))
