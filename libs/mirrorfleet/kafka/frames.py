"""Cutting a byte stream into frames, sans-IO: size i32, then so many bytes.

The reader owns the buffers that the transport writes into. Small frames are copied out of one
scratch buffer; a big one gets a bytearray of its own, so that its bytes are written once and then
belong to whoever takes the frame.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from mirrorfleet.core.errors import ConnectionLostError, NoMemoryError

Frame = bytes | bytearray
"""An answer from its correlation id on."""

SCRATCH_BYTES: Final = 64 << 10
BIG_FRAME: Final = SCRATCH_BYTES // 2
MAX_FRAME: Final = 300 << 20
"""No answer is that large; and a TLS alert read as a size (0x1503xxxx) is larger."""

_SIZE: Final = struct.Struct(">i")
_MIN_FRAME: Final = 4


def _maker() -> Callable[[int], bytearray]:
    """How to make a bytearray whose bytes are not set to zero first: each is written before it is
    read, and clearing a gigabyte costs a tenth of a second.
    """
    try:
        make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    except AttributeError:
        return bytearray  # another Python
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    return cast("Callable[[int], bytearray]", partial(make, None))


_unwritten: Final = _maker()


class NotAFrameError(ValueError):
    """Raised when the next bytes are no size; `first` holds them."""

    def __init__(self, first: bytes) -> None:
        super().__init__(f"not a frame: {first!r}")
        self.first = first

    def explained(self, peer: str) -> ConnectionLostError:
        """What a peer that sends such bytes probably is."""
        if self.first[:1] == b"\x15" and self.first[1:2] == b"\x03":
            return ConnectionLostError(
                f"{peer} speaks TLS and we do not.",
                hint="Set security.protocol to SSL or SASL_SSL,"
                " or use the plaintext listener's port.",
            )
        return ConnectionLostError(
            f"{peer} sent bytes that are not Kafka's: {self.first!r}.",
            hint="Check that the port is a broker's listener.",
        )


def unread(peer: str, what: str, error: Exception) -> ConnectionLostError:
    """Why nothing can be made of a frame that answers `what`."""
    if isinstance(error, MemoryError):
        return NoMemoryError(f"what {peer} answered {what} with")
    return ConnectionLostError(f"{peer} answered {what} with bytes we cannot read: {error!r}.")


class FrameReader:
    """`buffer` to write into, then `received` with how much was written."""

    def __init__(self) -> None:
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._have = 0
        self._frame: bytearray | None = None
        self._frame_view = self._scratch_view
        self._got = 0

    @property
    def begun(self) -> bool:
        """Whether a part of a frame is here."""
        return self._frame is not None or self._have > 0

    @property
    def missing(self) -> int:
        """Bytes that a large frame of which a part is here lacks; 0 when there is none."""
        return 0 if self._frame is None else len(self._frame) - self._got

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame_view[self._got :]
        return self._scratch_view[self._have :]

    def received(self, count: int) -> list[Frame]:
        """The frames that are complete after `count` more bytes.

        Raises: NotAFrameError.
        """
        if self._frame is None:
            self._have += count
            return self._cut()
        self._got += count
        if self._got < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        self._frame_view = self._scratch_view
        return [frame]

    def _cut(self) -> list[Frame]:
        """Take the complete frames out of the scratch buffer; keep the tail, or move it out."""
        found: list[Frame] = []
        position, have, scratch = 0, self._have, self._scratch
        while have - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(scratch, position)
            body = position + _SIZE.size
            if not _MIN_FRAME <= size <= MAX_FRAME:
                raise NotAFrameError(bytes(scratch[position : min(have, position + 8)]))
            if have - body >= size:
                found.append(bytes(self._scratch_view[body : body + size]))
                position = body + size
            elif size > BIG_FRAME:
                self._start_big(size, body)
                return found
            else:
                break
        if position:
            rest = have - position
            scratch[:rest] = scratch[position:have]
            self._have = rest
        return found

    def _start_big(self, size: int, body: int) -> None:
        self._frame = _unwritten(size)
        self._frame_view = memoryview(self._frame)
        self._got = self._have - body
        self._frame_view[: self._got] = self._scratch_view[body : self._have]
        self._have = 0
