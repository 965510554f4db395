"""Entities of the `kio` schemas to request bodies and back; the control plane's coding.

The hot path (Fetch, Produce) does not come through here. Nothing of kio leaks: its errors become
`ValueError`, and bytes that cannot be read end the connection (`Connection.request`).
"""

from __future__ import annotations

import datetime as dt
import io
from typing import Final, Protocol, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.kafka.newer_codes import with_numbers


class Request(Entity, Protocol):
    """A request of a definite version."""

    @property
    def __api_key__(self) -> int: ...


R = TypeVar("R", bound=Entity)

_PATIENCE: Final = 0.75
"""Of the time that is left; the rest is for the way there and back, and for the broker's queue."""


def encode(request: Entity) -> bytes:
    """The body of a request."""
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    return out.getvalue()


def decode(expect: type[R], buffer: bytes | bytearray, position: int) -> R:
    """The body of an answer. Raises: ValueError when the bytes are not one."""
    data = bytes(buffer)
    try:
        return _read(expect, data, position)
    except ValueError:  # an error code that is newer than the schemas, perhaps
        return _read(with_numbers(expect), data, position)


def _read(expect: type[R], data: bytes, position: int) -> R:
    try:
        entity, _ = entity_reader(expect)(data, position)
    except Exception as error:
        raise ValueError(f"not a {expect.__name__} v{expect.__version__}: {error}") from error
    return entity


def code_of(code: int) -> ErrorCode:
    """Our error code for the schema's, or for a number that has none there."""
    return error_code(int(code))


def milliseconds(count: int) -> i32Timedelta:
    """A duration as the schemas want it."""
    return i32Timedelta.parse(dt.timedelta(milliseconds=count))


def patience(left_s: float) -> i32Timedelta:
    """How long a broker may wait for others, so that its answer is here within `left_s`.

    After it the broker says REQUEST_TIMED_OUT, where we would have called it silent, and would have
    ended a connection on which others ask, too.
    """
    return milliseconds(int(left_s * _PATIENCE * 1000))


def count_ms(duration: dt.timedelta) -> int:
    """A duration of the schemas in whole milliseconds."""
    return round(duration.total_seconds() * 1000)
