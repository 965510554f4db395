"""Kafka's protocol primitives as MM2's Struct writes them: big-endian, no tags, no framing.

Source: MM2's classes in connect-mirror-client.
Extra bytes behind the known fields are ignored, as MM2's readers do;
anything else that does not fit gives None: the caller counts it.
"""

from __future__ import annotations

import struct
from typing import Final

_INT16: Final = struct.Struct(">h")
_MAX_STRING: Final = 0x7FFF


def string(text: str) -> bytes:
    """STRING: INT16 length, UTF-8.

    Raises: ValueError when longer than 32767 bytes.
    """
    data = text.encode()
    if len(data) > _MAX_STRING:
        raise ValueError(f"{len(data)} bytes are more than a STRING holds")
    return _INT16.pack(len(data)) + data


def read_string(data: bytes, at: int) -> tuple[str, int] | None:
    """The text at `at` and where it ends; None when the bytes hold none."""
    if at + _INT16.size > len(data):
        return None
    (size,) = _INT16.unpack_from(data, at)
    start = at + _INT16.size
    if size < 0 or start + size > len(data):
        return None
    try:
        return data[start : start + size].decode(), start + size
    except UnicodeDecodeError:
        return None
