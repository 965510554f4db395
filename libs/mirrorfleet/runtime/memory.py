"""How this process uses memory: the large is kept out of the heap, the collector runs less.

A fetch answer is a buffer of megabytes that lives for milliseconds. In the heap such buffers leave
holes as large as all that is in use; by themselves they go back to the system when they are let go
of. Which does not happen often, as the kernel would clear their pages again and again: a tenth of
the copying CPU (`kafka/frame_buffers.py` uses them again).

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
_LARGE: Final = 512 << 10
"""From this size on memory is mapped by itself (without it glibc raises the size by itself)."""
_KEPT: Final = 16 << 20
"""Free memory at the top of the heap that is kept."""
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
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
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
