"""TCP to the first of a name's addresses that answers.

An address that drops packets would use up the time that all of them share, since TCP itself gives
up after minutes only. `happy_eyeballs_delay` is asyncio's answer, and uvloop does not have it; so
they are tried in turn, each but the last for a short time.

Names of a region that is cut off may take minutes to be looked up in vain. Nobody else waits for
that: each name that is being looked up has a thread, which all share that want it meanwhile.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ipaddress
import socket
from functools import partial
from typing import Final, NamedTuple

from mirrorfleet.kafka.threads import begun


class Address(NamedTuple):
    """Where a socket is to be connected, and which."""

    family: int
    kind: int
    protocol: int
    at: tuple[str | int | bytes, ...]


_EACH_S: Final = 1.5
"""A first packet that was lost is sent again after 1 s."""
_lookups: Final[dict[tuple[str, int], concurrent.futures.Future[list[Address]]]] = {}
"""Those that are under way, of the whole process."""


async def dial(host: str, port: int, within_s: float) -> socket.socket:
    """A connected socket; the caller bounds the whole by `within_s`.

    Raises: socket.gaierror; OSError with the reason of every address.
    """
    found = await _addresses(host, port)
    each_s = min(_EACH_S, within_s / max(1, len(found)))
    failures: list[tuple[str, OSError]] = []
    for number, (family, kind, protocol, address) in enumerate(found, 1):
        try:
            async with asyncio.timeout(each_s if number < len(found) else None):
                return await _connect(socket.socket(family, kind, protocol), address)
        except OSError as error:  # a TimeoutError too
            failures.append((str(address[0]), error))
    raise _summary(failures)


async def _addresses(host: str, port: int) -> list[Address]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return await asyncio.wrap_future(_looked_up(host, port))
    return _look_up(host, port)  # at once: there is nothing to ask anybody


def _looked_up(host: str, port: int) -> concurrent.futures.Future[list[Address]]:
    wanted = (host, port)
    running = _lookups.get(wanted)
    if running is None:
        running = _lookups[wanted] = begun(partial(_look_up, host, port), f"name:{host}")
        running.add_done_callback(lambda _: _lookups.pop(wanted, None))
    return running


def _look_up(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # Python encodes names itself, and knows of no OSError there
        raise socket.gaierror(socket.EAI_NONAME, f"no host name: {error}") from error
    return [Address(family, kind, protocol, at) for family, kind, protocol, _, at in found]


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
