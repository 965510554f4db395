"""How this process uses memory: freed frames are kept for the next ones, the collector runs less.

A fetch answer is a buffer of megabytes that lives for milliseconds. By default glibc maps and
unmaps each one, so the kernel clears its pages again and again: a tenth of the copying CPU.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of mallopt(3)."""
_LARGEST_FRAME: Final = 32 << 20
"""Frames up to this size come from the heap (also the most that glibc takes)."""
_KEPT: Final = 128 << 20
"""Free memory at the top of the heap that is kept: over twice the default budget of a mirror."""
_ALLOCATIONS: Final = 50_000
"""Objects made between two young collections; copying makes hardly any cycles."""


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
