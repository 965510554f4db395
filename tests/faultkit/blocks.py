"""Ports of one test process alone: two that run side by side would take one from each other.

A broker that is down for a while leaves its ports free, and what is free now may be given to a
broker of the other process that binds it seconds later.
"""

from __future__ import annotations

import socket
from random import SystemRandom
from typing import Final

HOST: Final = "127.0.0.1"
SIZE: Final = 4_000
"""None is given twice, and hours of drills take some thousands."""
_held: list[socket.socket] = []
"""The kernel gives them back with the process, however that ends."""


def own_block(ports: range) -> range:
    """A part of the ports that no other process has: its first one is bound, as UDP, for life.

    All of them where none is left.
    """
    blocks = [ports[first : first + SIZE] for first in range(0, len(ports) - SIZE + 1, SIZE)]
    for block in SystemRandom().sample(blocks, len(blocks)):
        flag = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            flag.bind((HOST, block[0]))
        except OSError:
            flag.close()
        else:
            _held.append(flag)
            return block[1:]
    return ports
