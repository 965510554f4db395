"""CRC-32C as Kafka uses it (RFC 3720), with a way to join two checksums without the bytes.

    crc(A + B) = combine(crc(A), crc(B), len(B))

A batch's CRC covers 40 header bytes and then the payload. `combine` lets the payload be read
once, when it is fetched: verifying the source and stamping the target header both join a header's
checksum to the payload's. Measured: 0.3-0.9 us at any size, against 2.7 us for another pass over
64 KB in cache. It also keeps the proof whole: a bit that flips between fetch and send fails the
CRC at the target, where a second pass would have blessed it.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

__all__ = ["combine", "crc32c"]

_LOW_BITS: Final = 13
_LOW_SIZE: Final = 1 << _LOW_BITS
"""Up to here the hardware walks real zero bytes; above, one table step per megabyte."""
_HIGH_MOST: Final = 127

_Row = tuple[int, ...]
_Step = tuple[_Row, _Row, _Row, _Row]

_ZEROS: Final = memoryview(bytes(_HIGH_MOST << _LOW_BITS))


def _crcs_of_zeros(most: int) -> tuple[int, ...]:
    """CRC-32C of 0, 1, ... `most` zero bytes."""
    found = [0]
    for _ in range(most):
        found.append(crc32c(b"\0", found[-1]))
    return tuple(found)


_ZERO_CRCS: Final = _crcs_of_zeros(_LOW_SIZE)
_STEPS: Final[dict[int, _Step]] = {}


def combine(first: int, second: int, second_size: int) -> int:
    """CRC-32C of two byte strings in a row, from the CRC of each and the size of the second."""
    low = second_size & (_LOW_SIZE - 1)
    register = crc32c(_ZEROS[:low], first) ^ _ZERO_CRCS[low]
    blocks = second_size >> _LOW_BITS
    while blocks:
        step = min(blocks, _HIGH_MOST)
        a, b, c, d = _STEPS.get(step) or _make_step(step)
        register = (
            a[register & 0xFF]
            ^ b[register >> 8 & 0xFF]
            ^ c[register >> 16 & 0xFF]
            ^ d[register >> 24]
        )
        blocks -= step
    return register ^ second


def _make_step(blocks: int) -> _Step:
    """Tables that move a CRC register over `blocks` blocks of zeros (2 ms, once per number).

    The move is linear over bits, so 32 images, one of each bit, give every other by xor.
    """
    zeros = _ZEROS[: blocks << _LOW_BITS]
    of_none = crc32c(zeros)
    images = [crc32c(zeros, 1 << bit) ^ of_none for bit in range(32)]
    rows: list[_Row] = []
    for byte in range(4):
        row = [0] * 256
        for value in range(1, 256):
            lowest = value & -value
            row[value] = row[value ^ lowest] ^ images[8 * byte + lowest.bit_length() - 1]
        rows.append(tuple(row))
    step = (rows[0], rows[1], rows[2], rows[3])
    _STEPS[blocks] = step
    return step
