"""A build of tomorrow, for tests of upgrades: it knows format level 3, whose positions differ.

    python -m tests.versions.next_build SERVICE ARGUMENTS...      as `python -m services.SERVICE`

A position of version 2 is one of version 1 with a text behind it. Everything else is this build.
"""

from __future__ import annotations

import sys
from types import MappingProxyType

from mirrorfleet.records import formats

# First, because other modules take the names from here when they are loaded.
formats.LEVELS = MappingProxyType(  # type: ignore[misc]  # a Final: only a newer build has another
    {**formats.LEVELS, 3: formats.Formats(position=2, segment=1, quarantine=1)}
)
formats.KNOWN_LEVEL = 3  # type: ignore[misc]  # the same

from mirrorfleet.records import positions  # noqa: E402 - see above
from tests.faultkit.program import run_program  # noqa: E402 - the same

MORE = b"tomorrow"
_encode, _decode = positions.encode, positions.decode


def encode(entry: positions.Entry, version: int = 1) -> tuple[bytes, bytes | None]:
    """As of today, with more behind a position of version 2."""
    key, value = _encode(entry, version)
    is_new = version == 2 and isinstance(entry, positions.Position) and value is not None
    return key, (value or b"") + MORE if is_new else value


def decode(key: bytes | None, value: bytes | None) -> positions.Entry:
    """Both versions."""
    if value is not None and value[:1] == b"\2" and value.endswith(MORE):
        value = b"\1" + value[1 : -len(MORE)]
    return _decode(key, value)


positions.encode, positions.decode = encode, decode

if __name__ == "__main__":
    run_program(f"services.{sys.argv[1]}", sys.argv[2:])
