"""A level is one set of versions; a build that does not know one refuses."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import UnknownVersionError
from mirrorfleet.records import positions, segments
from mirrorfleet.records.formats import FIRST_LEVEL, KNOWN_LEVEL, LEVELS, Formats, formats_at


def test_the_first_level_is_what_readers_of_today_know() -> None:
    assert formats_at(FIRST_LEVEL) == Formats(position=1, segment=1, quarantine=None)
    now = positions.VERSION
    assert formats_at(KNOWN_LEVEL) == Formats(now, segments.VERSION, quarantine=now)


def test_levels_have_no_holes_and_none_is_higher_than_the_known_one() -> None:
    assert list(LEVELS) == list(range(FIRST_LEVEL, KNOWN_LEVEL + 1))


@pytest.mark.parametrize("level", [0, KNOWN_LEVEL + 1])
def test_a_level_of_another_build_is_refused_by_name(level: int) -> None:
    with pytest.raises(UnknownVersionError, match=f"format level of the fleet: version {level}"):
        formats_at(level)
