"""Ports of 127.0.0.1 that nobody has.

Taken from below the range out of which the kernel gives ports to outgoing connections, so that a
broker that is down for a while finds its port free when it comes back.
"""

from __future__ import annotations

import socket
from itertools import islice
from random import SystemRandom
from typing import Final

from services.local.broker import LocalError

HOST: Final = "127.0.0.1"
FIRST: Final = 10_000
LAST: Final = 32_767
TRIES: Final = 200


def is_free(port: int) -> bool:
    """Whether a broker could listen there now."""
    with socket.socket() as probe:
        # as Kafka does: an old connection in TIME_WAIT does not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """So many different free ports. Raises: LocalError when there are none."""
    tried = SystemRandom().sample(range(FIRST, LAST + 1), TRIES)
    found = list(islice(filter(is_free, tried), count))
    if len(found) < count:
        raise LocalError(f"{HOST} has no {count} free ports between {FIRST} and {LAST}.")
    return found
