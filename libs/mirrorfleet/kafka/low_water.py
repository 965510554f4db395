"""How much must have come before a socket wakes the loop: SO_RCVLOWAT (socket(7)).

Of a large answer nothing can be used before it is whole, and each part that is read as soon as it
comes costs a turn of the loop: some 7,000 a gigabyte on a fast line. So the kernel keeps what comes
until it is worth a turn, or all that is missing. It wakes us earlier by itself when its own buffer
is full (tcp_epollin_ready).

Only near by. Far away the window that a peer may fill grows with what is read in each round trip,
and turns are few.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, Protocol

MOST: Final = 512 << 10
"""Bytes. More would save few turns and leave the processor's cache before they are copied."""
LEAST: Final = 128 << 10
"""Of fewer missing bytes one turn more costs no more than to say so."""
RECORD: Final = 32 << 10
"""More than a record of TLS has (RFC 8446 5.2: 16 KB and a little)."""
FAR_S: Final = 0.005
"""From such a round trip on a broker is far away. In one region it is below 2 ms, and to a broker
that was busy not much longer."""


class Raw(Protocol):
    """What is asked of a socket."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """As in `socket.socket`."""
        ...


class LowWater:
    """The mark of one socket; without a socket it does nothing.

    `within`: so much of what is missing may have left the socket, and not be told of before more
    comes, as the part of a record. What is missing takes as many bytes of the socket, or more.
    """

    __slots__ = ("_mark", "_raw", "_within")

    def __init__(self, raw: Raw | None = None, *, within: int = 0) -> None:
        self._raw, self._within = raw, within
        self._mark = 1

    def want(self, missing: int, rtt_s: float) -> None:
        """So many bytes of a large answer are still to come; 0: nobody knows how many."""
        sure = missing - self._within
        mark = min(sure, MOST) if sure >= LEAST and rtt_s < FAR_S else 1
        if mark != self._mark:
            self._set(mark)

    def lower(self) -> bool:
        """Wake at every byte from now on, until more is wanted; whether that is news."""
        if self._mark == 1:
            return False
        self._set(1)
        return True

    def _set(self, mark: int) -> None:
        self._mark = mark
        if self._raw is not None:
            with suppress(OSError):  # closed, or a system without it: then it wakes us as ever
                self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
