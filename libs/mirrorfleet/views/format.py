"""Numbers as people read them. None is "unknown", never 0."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from mirrorfleet.records.overview import duration

UNKNOWN: Final = "unknown"
_STEPS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EXACT_BELOW: Final = 10_000
_MOMENTS: Final = frozenset({"time", "start", "end"})
"""What a field in milliseconds since 1970 is called, before `_ms`; others are lengths of time."""


def count(value: int | None) -> str:
    """A whole number with its thousands apart: `1,234,567`."""
    return UNKNOWN if value is None else f"{value:,}"


def short(value: float | None) -> str:
    """Three digits and a letter: `12.3k`, `1.2M`; whole numbers below 10,000 as they are."""
    if value is None:
        return UNKNOWN
    if abs(value) < _EXACT_BELOW:
        whole = value == int(value) or abs(value) >= 100
        return f"{value:,.0f}" if whole else f"{value:.1f}"
    step, letter = next(one for one in _STEPS if abs(value) >= one[0])
    scaled = value / step
    return f"{scaled:.0f}{letter}" if abs(scaled) >= 100 else f"{scaled:.1f}{letter}"


def size(value: float | None) -> str:
    """Bytes in decimal units: `1.2 MB`."""
    if value is None:
        return UNKNOWN
    for step, letter in _STEPS:
        if abs(value) >= step:
            return f"{value / step:.1f} {letter}B"
    return f"{value:.0f} B"


def span(milliseconds: int | None) -> str:
    """A length of time: `850ms`, `1.4s`, `3m12s`, `2h05m`, `4d03h`."""
    if milliseconds is None:
        return UNKNOWN
    if 1000 <= milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s"
    return duration(milliseconds)


def moment(time_ms: int | None) -> str:
    """A time in UTC: `2026-01-31 12:00:05`."""
    if time_ms is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def pairs(fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Names and values of a report, which says what each is by its name alone.

    What is null is not known, or was not asked for: it is left out.
    """
    return [_pair(name, value) for name, value in fields.items() if value is not None]


def _pair(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return name, "yes" if value else "no"
    what = name.removesuffix("_ms")
    if isinstance(value, int) and what != name and what.split("_")[-1] in _MOMENTS:
        return what, moment(value)
    return name, str(value)


def plural(number: int, one: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
