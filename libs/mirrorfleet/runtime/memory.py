"""How this process uses memory: freed frames are kept for the next ones, the collector runs less.

A fetch answer is a buffer of megabytes that lives for milliseconds. By default glibc maps and
unmaps each one, so the kernel clears its pages again and again: a tenth of the copying CPU.

Copying makes hardly any cycles, faults do: an exception leads over its traceback to the frames of
all that it passed, to connections and to what they had fetched. After 40 minutes of faults 58,000
such objects held 66 MB, and the collector, which counts objects, had no reason to look. So it looks
as well each time that the process has become larger than ever.

What was large once stays so: the heap shrinks at its top only, and after 80 minutes of faults of
its 207 MB 43 were in use. So now and then what is free within it is given back, if it is more than
is wanted again in a moment; from there on growth is measured anew.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import resource
from pathlib import Path
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of mallopt(3)."""
_LARGEST_FRAME: Final = 32 << 20
"""Frames up to this size come from the heap (also the most that glibc takes)."""
_KEPT: Final = 128 << 20
"""Free memory at the top of the heap that is kept: over twice the default budget of a mirror."""
_ALLOCATIONS: Final = 50_000
"""Objects made between two young collections."""
_GROWN: Final = 16 << 20
"""So many bytes more than ever are a reason to look for garbage in cycles: some 50 ms of CPU."""
_LOOK_S: Final = 1.0
_HOLES: Final = 64 << 20
"""Free bytes of the heap that are not worth giving back: what a busy mirror takes and frees."""
_LOOKS: Final = 60
"""Between two times that holes are given back; it takes some 20 ms."""


class _Heap(ctypes.Structure):
    """mallinfo2(3), of all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


def prepare() -> None:
    """Set both up once, after everything is imported and before the loop runs."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        pass  # another C library: it works as well, with a little more CPU
    else:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_FRAME)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 20)


class Growth:
    """Whether a process has grown enough since the last time that it was asked about."""

    def __init__(self, bytes_now: int) -> None:
        self._most = bytes_now

    def is_due(self, bytes_now: int) -> bool:
        """True once for each `_GROWN` bytes above all that was seen before."""
        if bytes_now - self._most < _GROWN:
            return False
        self._most = bytes_now
        return True


async def watch() -> None:
    """Collect garbage when this process grows, give back holes in its heap; until cancelled."""
    growth = Growth(_resident_bytes())
    for look in itertools.count(1):
        await asyncio.sleep(_LOOK_S)
        if growth.is_due(_resident_bytes()):
            gc.collect()
        if look % _LOOKS == 0 and give_back():
            growth = Growth(_resident_bytes())


def give_back() -> bool:
    """Give back what is free within the heap; False when it is not worth it, or not possible."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Heap
        if libc.mallinfo2().fordblks <= _HOLES:
            return False
        libc.malloc_trim(0)
    except (AttributeError, OSError):
        return False  # another C library
    return True


def _resident_bytes() -> int:
    """What it has in memory now; 0 where only Linux would say it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
