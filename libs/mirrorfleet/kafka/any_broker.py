"""A request that any broker of a cluster may answer: address after address, until one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from kio.static.protocol import Entity

from mirrorfleet.core.errors import (
    AuthenticationError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.codec import Request
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.versions import api_name

R = TypeVar("R", bound=Entity)

LEAST_S: Final = 5.0
"""Least share of one address in the time of a request that any broker may answer, as long as others
have half of it; and least time without an answer that ends a connection, which is everybody's.
"""


class _Word(IntEnum):
    """Why no address had an answer: the first of these that there is, is said."""

    ANOTHER = 0
    """Another cluster has an address of the estate."""
    LOGIN = 1
    NONE = 2
    """It cannot be reached, or does not answer."""
    MOVED = 3
    """Another cluster has the address of a broker that was ours."""


async def first_answer(
    addresses: Sequence[str],
    ask: Callable[[str, int], Awaitable[R]],
    *,
    named: Collection[str],
    otherwise: str,
) -> R:
    """The first answer; `ask` is told an address and how many are left with it.

    One may refuse our login (it has not heard of a new secret); a second one is believed, for more
    tries could lock the account. One of another cluster, which `ask` raises RefusedError for, is
    believed where the estate has `named` its address; that of a broker may have been given away.

    Raises: the gravest error of all addresses; ConnectionLostError `otherwise`: there is none.
    """
    why: dict[_Word, MirrorfleetError] = {}
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            return await ask(address, left)
        except AuthenticationError as error:
            if _Word.LOGIN in why:
                raise
            why[_Word.LOGIN] = error
        except (ConnectionLostError, DeadlineError) as error:
            why[_Word.NONE] = error
        except RefusedError as error:
            why[_Word.ANOTHER if address in named else _Word.MOVED] = error
    if why:
        raise why[min(why)]
    raise ConnectionLostError(otherwise)


def share_s(attempts: Attempts, addresses: int) -> float:
    """What one of the addresses that are left may take of the time that is left."""
    if addresses == 1:
        return attempts.left_s
    return max(attempts.left_s / addresses, min(LEAST_S, attempts.left_s / 2))


async def answer_within(
    connection: Connection, request: Request, expect: type[R], limit_s: float
) -> R:
    """An answer in time, after which we give up, and the connection goes on for others.

    Raises: as `call`.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await call(connection, request, expect, max(limit_s, LEAST_S))
    except TimeoutError:
        what = f"{api_name(int(request.__api_key__))} v{int(request.__version__)}"
        raise DeadlineError(f"no answer from {connection.peer} to {what} in time.") from None
