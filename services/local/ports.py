"""Ports of 127.0.0.1 that nobody has.

Taken from below the range out of which the kernel gives ports to outgoing connections, so that a
broker that is down for a while finds its port free when it comes back. None is given twice: regions
are made side by side, and bind theirs seconds later.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from itertools import islice
from random import SystemRandom
from typing import Final

from services.local.broker import LocalError

HOST: Final = "127.0.0.1"
PORTS = range(10_000, 32_768)  # tests, which run side by side, have each a part of it
_giving, _given = threading.Lock(), set[int]()


def is_free(port: int) -> bool:
    """Whether a broker could listen there now."""
    with socket.socket() as probe, suppress(OSError, OverflowError):
        # as Kafka does: an old connection in TIME_WAIT does not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return True
    return False


def free_ports(count: int) -> list[int]:
    """So many different free ports, never given before. Raises: LocalError when there are none."""
    tried = SystemRandom().sample(PORTS, 200)
    with _giving:
        found = list(islice((p for p in tried if p not in _given and is_free(p)), count))
        _given.update(found)
    if len(found) < count:
        raise LocalError(f"{HOST} has no {count} free ports between {PORTS[0]} and {PORTS[-1]}.")
    return found
