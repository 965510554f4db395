"""A process that has no memory left and codes: `python -m tests.unit.wire.starving CODEC`.

Prints for each attempt what became of it. Where the process does not come to an end of its own, a
library ended it.
"""

from __future__ import annotations

import os
import sys
from random import Random
from typing import TYPE_CHECKING, Final

from mirrorfleet.wire.codecs import Codec, compress, decompress
from tests.faultkit.process import limit_memory

if TYPE_CHECKING:
    from collections.abc import Callable

PIECES: Final = (1_000, 4_000, 100_000)
"""What is too much in turn: the first leaves nearly nothing, the last small things only."""
BODY: Final = Random(1).randbytes(1_500) * 2
RUN: Final = bytes.fromhex("28b52ffd 00 00 230300 78")
"""A zstd frame of one run, as one that takes the way of many blocks."""


def starved(piece: int, attempt: Callable[[], object]) -> str:
    """What became of it where no `piece` bytes more are to be had."""
    kept = []
    try:
        while True:
            kept.append(bytearray(piece))
    except MemoryError:
        pass
    try:
        attempt()
        return "done"
    except MemoryError:
        return "no memory"
    finally:
        kept.clear()


def main(name: str) -> None:
    codec = Codec[name]
    packed = RUN if codec is Codec.ZSTD else compress(codec, BODY)
    limit_memory(os.getpid(), room=0)
    said = [
        starved(piece, attempt)
        for piece in PIECES
        for attempt in (lambda: decompress(codec, packed), lambda: compress(codec, BODY))
    ]
    print(*said, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
