"""The format of a fleet's control topics as one number, its format level.

    level   positions  segments  quarantine      versions of the values that workers write
      1         1         1          -           a partition that takes no marker stops its slot
      2         1         1          1           its slot goes on without it, with a spare id

A process writes what the level in the catalog says and nothing newer. So a new build runs beside
the one before, and may be taken back, until the level is raised by command; from then on the build
before refuses the catalog, and with it everything else. A level is never lowered: what was written
at it stays. A new fleet begins at the newest that the `sync` knows which makes its catalog.
Keys keep their version for ever, or compaction would see two keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mirrorfleet.records.packing import unknown_version


class Formats(NamedTuple):
    """Versions to write."""

    position: int
    segment: int
    quarantine: int | None
    """None: such records are not written; a build that knows none would not fence the spare id."""


LEVELS: Final[Mapping[int, Formats]] = MappingProxyType(
    {
        1: Formats(position=1, segment=1, quarantine=None),
        2: Formats(position=1, segment=1, quarantine=1),
    }
)
"""Every level that this build can read and write."""
FIRST_LEVEL: Final = 1
KNOWN_LEVEL: Final = max(LEVELS)


def formats_at(level: int) -> Formats:
    """What is written at a level. Raises: UnknownVersionError for one of a newer build."""
    found = LEVELS.get(level)
    if found is None:
        raise unknown_version("format level of the fleet", level, KNOWN_LEVEL)
    return found
