"""How this process uses memory: freed frames are kept for the next ones, the collector runs less.

A fetch answer is a buffer of megabytes that lives for milliseconds. By default glibc maps and
unmaps each one, so the kernel clears its pages again and again: a tenth of the copying CPU.

Copying makes hardly any cycles, faults do: an exception leads over its traceback to the frames of
all that it passed, to connections and to what they had fetched. After 40 minutes of faults 58,000
such objects held 66 MB, and the collector, which counts objects, had no reason to look. So it looks
as well each time that the process has become larger than ever.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
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
    """Collect garbage when this process grows; until cancelled."""
    growth = Growth(_resident_bytes())
    while True:
        await asyncio.sleep(_LOOK_S)
        if growth.is_due(_resident_bytes()):
            gc.collect()


def _resident_bytes() -> int:
    """What it has in memory now; 0 where only Linux would say it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
