"""TCP to the first of a name's addresses that answers.

An address that drops packets would use up the time that all of them share, since TCP itself gives
up after minutes only. `happy_eyeballs_delay` is asyncio's answer, and uvloop does not have it; so
they are tried in turn, each but the last for a short time.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_EACH_S: Final = 1.5
"""A first packet that was lost is sent again after 1 s."""


async def dial(host: str, port: int, within_s: float) -> socket.socket:
    """A connected socket; the caller bounds the whole by `within_s`.

    Raises: socket.gaierror; OSError with the reason of every address.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    each_s = min(_EACH_S, within_s / max(1, len(found)))
    failures: list[tuple[str, OSError]] = []
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        try:
            async with asyncio.timeout(each_s if number < len(found) else None):
                return await _connect(socket.socket(family, kind, protocol), address)
        except OSError as error:  # a TimeoutError too
            failures.append((str(address[0]), error))
    raise _summary(failures)


async def _connect(made: socket.socket, address: tuple[str | int | bytes, ...]) -> socket.socket:
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _summary(failures: list[tuple[str, OSError]]) -> OSError:
    """The error when it is the same for all addresses, or what each of them said."""
    if not failures:
        return OSError("the name has no address")
    if len({error.errno for _, error in failures}) == 1:
        return failures[-1][1]
    return OSError("; ".join(f"{at}: {error.strerror or 'no answer'}" for at, error in failures))
