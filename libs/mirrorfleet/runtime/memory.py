"""How this process uses memory: freed frames are kept for the next ones, the collector runs less.

A fetch answer is a buffer of megabytes that lives for milliseconds. By default glibc maps and
unmaps each one, so the kernel clears its pages again and again: a tenth of the copying CPU.

Copying makes hardly any cycles, faults do: an exception leads over its traceback to the frames of
all that it passed, to connections and to what they had fetched. After 40 minutes of faults 58,000
such objects held 66 MB, and the collector, which counts objects, had no reason to look. So it looks
as well each time that the process has become larger than ever.

What was large once stays so: the heap shrinks at its top only. Answers of many sizes leave holes
that the next ones do not fit into: of 100 MB of heap a busy mirror used 60. And after 80 minutes of
faults 43 of 207 MB were in use. So what is free within it is given back while the process is large
and grows, 1 to 5 ms each time, and now and then if it is more than is wanted again in a moment;
from there on growth is measured anew.
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
_LARGE: Final = 120 << 20
"""From here on holes are given back whenever it grows, so that 150 MB are enough for a mirror."""
_GLANCE_S: Final = 0.05
"""Between two looks at its size: in 0.1 s a backlog makes 13 MB of holes."""
_REGROWN: Final = 8 << 20
"""So many bytes more than after the last time, or a sixteenth of all, are worth another one."""
_FEW: Final = 12 << 20
"""Free bytes of the heap that are left to it while it grows."""
_GLANCES: Final = 20
"""Between two looks for garbage."""
_HOLES: Final = 64 << 20
"""Free bytes of the heap that are left to it when it does not: what a busy mirror takes, frees."""
_LOOKS: Final = 60
"""Looks for garbage between two times that these are given back; it takes some 20 ms."""


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


class Regrowth:
    """Whether a process is large, and larger than when its holes were given back last."""

    def __init__(self) -> None:
        self._after = 0

    def is_due(self, bytes_now: int) -> bool:
        """Whether it is time to give holes back (again)."""
        self._after = min(self._after, bytes_now)
        return bytes_now >= max(_LARGE, self._after + max(_REGROWN, self._after // 16))

    def settled(self, bytes_now: int) -> None:
        """They were, as far as there were any; growth counts from here."""
        self._after = bytes_now


async def watch() -> None:
    """Collect garbage when this process grows, give back holes in its heap; until cancelled."""
    growth, regrowth = Growth(_resident_bytes()), Regrowth()
    for glance in itertools.count(1):
        await asyncio.sleep(_GLANCE_S)
        size = _resident_bytes()
        if regrowth.is_due(size):
            give_back(_FEW)
            size = _resident_bytes()
            regrowth.settled(size)
        look, rest = divmod(glance, _GLANCES)
        if rest:
            continue
        if growth.is_due(size):
            gc.collect()
        if look % _LOOKS == 0 and give_back(_HOLES):
            growth = Growth(_resident_bytes())


def give_back(least: int) -> bool:
    """Give back what is free within the heap; False when it is `least` bytes at most, or when it
    is not possible.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Heap
        if libc.mallinfo2().fordblks <= least:
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
