"""Entities of the `kio` schemas to request bodies and back; the control plane's coding.

The hot path (Fetch, Produce) does not come through here. Nothing of kio leaks: its errors become
`ValueError`, and bytes that cannot be read end the connection (`Connection.request`).
"""

from __future__ import annotations

import datetime as dt
import io
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

from mirrorfleet.core.error_codes import ErrorCode, error_code


class Request(Entity, Protocol):
    """A request of a definite version."""

    @property
    def __api_key__(self) -> int: ...


R = TypeVar("R", bound=Entity)


def encode(request: Entity) -> bytes:
    """The body of a request."""
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    return out.getvalue()


def decode(expect: type[R], buffer: bytes | bytearray, position: int) -> R:
    """The body of an answer. Raises: ValueError when the bytes are not one."""
    try:
        entity, _ = entity_reader(expect)(bytes(buffer), position)
    except Exception as error:
        raise ValueError(f"not a {expect.__name__} v{expect.__version__}: {error}") from error
    return entity


def code_of(code: SchemaErrorCode) -> ErrorCode:
    """Our error code for the schema's."""
    return error_code(int(code))


def milliseconds(count: int) -> i32Timedelta:
    """A duration as the schemas want it."""
    return i32Timedelta.parse(dt.timedelta(milliseconds=count))


def count_ms(duration: dt.timedelta) -> int:
    """A duration of the schemas in whole milliseconds."""
    return round(duration.total_seconds() * 1000)
