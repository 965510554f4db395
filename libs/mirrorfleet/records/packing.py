"""Reading and writing the small binary values of control topics.

    unsigned   LEB128 varint (as Kafka's UNSIGNED_VARINT, but up to 64 bits)
    signed     zigzag, then unsigned
    text       unsigned length + UTF-8
    uuid       16 bytes
    crc        4 bytes, big-endian

The first byte of each value is its version. `Reader` never reads past its end and never trusts a
length: damaged bytes raise CorruptBatchError, a version of a newer build UnknownVersionError.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError


@lru_cache(maxsize=1 << 14)
def shared_uuid(raw: bytes) -> UUID:
    """One object for these 16 bytes: a topic has thousands of partitions, each with its id."""
    return UUID(bytes=raw)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that may be skipped and was; the reader counts them. `reason` is for people."""

    reason: str


class Writer:
    """Appends to one bytearray."""

    __slots__ = ("out",)

    def __init__(self, version: int) -> None:
        self.out = bytearray((version,))

    def unsigned(self, value: int) -> None:
        """Raises: ValueError when negative."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        out = self.out
        while value > 0x7F:
            out.append((value & 0x7F) | 0x80)
            value >>= 7
        out.append(value)

    def signed(self, value: int) -> None:
        """Zigzag: small either way is short."""
        self.unsigned((value << 1) if value >= 0 else ((-value << 1) - 1))

    def text(self, value: str) -> None:
        """UTF-8 behind its length in bytes."""
        data = value.encode()
        self.unsigned(len(data))
        self.out += data

    def uuid(self, value: UUID) -> None:
        """The 16 bytes of it."""
        self.out += value.bytes

    def crc(self, value: int) -> None:
        """An unsigned 32-bit number."""
        self.out += value.to_bytes(4, "big")

    def done(self) -> bytes:
        """What was written."""
        return bytes(self.out)


class Reader:
    """Reads one value; `what` names it in errors."""

    __slots__ = ("at", "data", "what")

    def __init__(self, data: bytes, what: str, *, version: int) -> None:
        """Raises: UnknownVersionError when the first byte is not `version`."""
        self.data = data
        self.what = what
        self.at = 1
        if not data:
            raise CorruptBatchError(f"{what}: the value is empty")
        if data[0] != version:
            raise unknown_version(what, data[0], version)

    def _cut(self) -> CorruptBatchError:
        return CorruptBatchError(f"{self.what}: cut short at byte {self.at} of {len(self.data)}")

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise self._cut()
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def unsigned(self) -> int:
        """At most ten bytes, as 64 bits need."""
        value = 0
        data = self.data
        for shift in range(0, 70, 7):
            if self.at >= len(data):
                raise self._cut()
            byte = data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptBatchError(f"{self.what}: a number at byte {self.at} never ends")

    def signed(self) -> int:
        """Zigzag undone."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def length(self) -> int:
        """A count of things that take at least a byte each, so never more than bytes are left."""
        value = self.unsigned()
        if value > len(self.data) - self.at:
            raise self._cut()
        return value

    def text(self) -> str:
        """Raises: CorruptBatchError when not UTF-8."""
        piece = self.take(self.length())
        try:
            return piece.decode()
        except UnicodeDecodeError:
            raise CorruptBatchError(
                f"{self.what}: text before byte {self.at} is not UTF-8"
            ) from None

    def uuid(self) -> UUID:
        """16 bytes."""
        return shared_uuid(self.take(16))

    def crc(self) -> int:
        """An unsigned 32-bit number."""
        return int.from_bytes(self.take(4), "big")

    def end(self) -> None:
        """Raises: CorruptBatchError when bytes are left."""
        if self.at != len(self.data):
            raise CorruptBatchError(f"{self.what}: {len(self.data) - self.at} bytes too many")


def unknown_version(what: str, found: object, known: int) -> UnknownVersionError:
    """The error for a record that must not be skipped."""
    return UnknownVersionError(
        f"{what}: version {found!r} is not known to this build (it knows {known}).",
        hint="Run the release that wrote it, or a newer one; nothing was changed.",
    )
