"""Connections that one caller each has, with the broker that they were made to.

A broker that moves may leave its address to another one of its cluster (KAFKA-20246). Who stays
connected there is told NOT_LEADER for ever, and is never idle: it ends when metadata has another
address for its broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.metadata import Broker


class Dedicated:
    """Those of one cluster."""

    def __init__(self) -> None:
        self._made: dict[Connection, Broker] = {}

    def add(self, connection: Connection, broker: Broker) -> Connection:
        """Know one more; the connection."""
        self._made = {kept: at for kept, at in self._made.items() if not kept.closed}
        self._made[connection] = broker
        return connection

    def heed(self, brokers: Mapping[int, Broker]) -> None:
        """End those to brokers that are elsewhere now."""
        for connection, was in self._made.items():
            now = brokers.get(was.node_id, was).address
            if now != was.address:
                why = f"broker {was.node_id} is at {now} now, and no more at {was.address}."
                connection.close(ConnectionLostError(why))

    def take_all(self) -> list[Connection]:
        """All of them, to be closed."""
        made, self._made = self._made, {}
        return list(made)
