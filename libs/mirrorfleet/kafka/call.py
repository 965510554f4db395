"""One request of the control plane on one connection: entity out, entity in."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TypeVar

from kio.static.protocol import Entity

from mirrorfleet.core.errors import DeadlineError, UnsupportedError
from mirrorfleet.kafka.codec import Request, count_ms, decode, encode
from mirrorfleet.kafka.connection import Connection, Reader
from mirrorfleet.kafka.frames import Frame
from mirrorfleet.kafka.versions import api_name

R = TypeVar("R", bound=Entity)


async def call(connection: Connection, request: Request, expect: type[R], deadline_s: float) -> R:
    """Send `request` and read the answer as `expect` (of the same API and version).

    Raises: UnsupportedError when the broker does not speak this version; ConnectionLostError and
    DeadlineError with the outcome unknown. Error codes are the caller's to look at.
    """
    key, version = int(request.__api_key__), int(request.__version__)
    versions = connection.versions
    if versions is not None and not versions.offers(key, version):
        raise UnsupportedError(f"{connection.peer} does not speak {api_name(key)} v{version}.")
    try:
        async with asyncio.timeout(deadline_s):
            await connection.ready()
    except TimeoutError:
        raise DeadlineError(f"{connection.peer} took no request for {deadline_s} s.") from None
    answer = await connection.request(
        key,
        version,
        (encode(request),),
        reader_of(expect),
        flexible=request.__flexible__,
        deadline_s=deadline_s,
    )
    note_throttle(connection, answer)
    return answer


async def ready_within(connection: Connection, seconds: float) -> None:
    """Wait until a connection takes more; what a quota wants of silence is not counted.

    Raises: ConnectionLostError, DeadlineError, AuthenticationError.
    """
    if not connection.must_wait:
        return
    try:
        async with asyncio.timeout(connection.muted_s + seconds):
            await connection.ready()
    except TimeoutError:
        raise DeadlineError(f"{connection.peer} took no request in time.") from None


def reader_of(expect: type[R]) -> Reader[R]:
    """What reads an answer of this type."""

    def read(frame: Frame, start: int) -> R:
        return decode(expect, frame, start)

    return read


def note_throttle(connection: Connection, answer: Entity) -> None:
    """Keep the throttle time of an answer, if it has one."""
    throttle = getattr(answer, "throttle_time", None)
    if isinstance(throttle, dt.timedelta):
        connection.throttle(count_ms(throttle))
