"""Memory of large answers, used again once nobody holds it.

    take(1_000_000) -> a bytearray of that length, of 1 MiB, unwritten
       the reader fills it, a segment keeps views of it, a request is sent from it ...
    take(1_040_000) -> the same one, when all of them are gone; else another

Answers are of all sizes and live for different times. Made and freed one by one they leave holes
between each other in the heap which the next ones do not fit into: as many bytes again as are in
use. Mapped one by one the kernel clears each page, a tenth of the copying CPU. So they are kept
here, in sizes a quarter apart, and nobody gives them back: nobody else could say who still holds
a view. The interpreter can. It counts who refers to an object, a view refers to what it shows,
and where only this list is left nobody can come to refer to it again.
"""

from __future__ import annotations

import ctypes
from functools import partial
from sys import getrefcount
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

SMALLEST: Final = 512 << 10
"""Below it the heap has no trouble."""
FREE_KEPT: Final = 6 << 20
"""So many bytes that nobody holds are kept for the next answers; what is above goes."""
_STEPS_BITS: Final = 2
"""Four sizes are made between a power of two and the next."""


def allocation(size: int) -> int:
    """How large a buffer is made for a large answer of `size` bytes: the next step above it."""
    step = 1 << (size.bit_length() - 1 - _STEPS_BITS)
    return -(-size // step) * step


class FrameBuffers:
    """The large buffers of this process, in the order in which they were last taken."""

    def __init__(self, free_kept: int = FREE_KEPT) -> None:
        self._free_kept = free_kept
        self._made: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """A bytearray of `size` bytes, each to be written before it is read. Whoever takes it
        just lets go of it.
        """
        if size < SMALLEST:
            return _make(size)
        free = [
            each
            for each, holders in zip(self._made, _holders(self._made), strict=True)
            if holders == _NOBODY
        ]
        fitting = [each for each in free if _fits(each, size)]
        taken = min(fitting, key=bytearray.__alloc__) if fitting else _make(allocation(size))
        _resize(taken, size)
        self._keep(taken, free)
        return taken

    def _keep(self, taken: bytearray, free: list[bytearray]) -> None:
        """Put `taken` last; of the other `free` ones the last taken stay."""
        left, gone = self._free_kept, {id(taken)}
        for each in reversed(free):
            if each is not taken:
                left -= each.__alloc__()
                if left < 0:
                    gone.add(id(each))
        self._made = [*(each for each in self._made if id(each) not in gone), taken]


def _fits(buffer: bytearray, size: int) -> bool:
    """Whether it can become that long without moving: CPython's `PyByteArray_Resize` cuts at less
    than half of the allocation, and wants room for a zero at the end.
    """
    allocated = buffer.__alloc__()
    return allocated // 2 <= size < allocated


def _holders(buffers: list[bytearray]) -> list[int]:
    """How often each is referred to, with the list itself and what this function needs."""
    return [getrefcount(each) for each in buffers]


_NOBODY: Final = _holders([bytearray()])[0]
"""The count of a buffer that only the list refers to."""


def _maker() -> Callable[[int], bytearray]:
    """How to make a bytearray whose bytes are not set to zero first: clearing a gigabyte costs a
    tenth of a second.
    """
    make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    return cast("Callable[[int], bytearray]", partial(make, None))


def _resizer() -> Callable[[bytearray, int], int]:
    """How to make a bytearray longer without writing into it. BufferError where a view is left."""
    resize = ctypes.pythonapi.PyByteArray_Resize
    resize.restype = ctypes.c_int
    resize.argtypes = (ctypes.py_object, ctypes.c_ssize_t)
    return cast("Callable[[bytearray, int], int]", resize)


_make: Final = _maker()
_resize: Final = _resizer()
BUFFERS: Final = FrameBuffers()
