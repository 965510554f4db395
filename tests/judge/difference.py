"""What differs between one source record and its copy, field by field, in words.

Pure. Digests say that two records differ; this says in what, from the whole records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.judge.log import Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = 24
"""Bytes of a field that are shown; the length says how many there are."""


class WholeRecord(NamedTuple):
    """All that a consumer sees of a record."""

    offset: int
    timestamp_ms: int
    stamp: Stamp
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def difference(source: WholeRecord, target: WholeRecord) -> str:
    """Name the fields that differ, with both values; empty when none does."""
    found: list[str] = []
    for name, one, other in (
        ("key", source.key, target.key),
        ("value", source.value, target.value),
    ):
        if one != other:
            found.append(f"{name} {_shown(one)} became {_shown(other)}{_first_byte(one, other)}")
    if source.headers != target.headers:
        found.append(_headers(source.headers, target.headers))
    if source.timestamp_ms != target.timestamp_ms:
        found.append(f"timestamp {source.timestamp_ms} became {target.timestamp_ms}")
    if source.stamp is not target.stamp:
        found.append(f"timestamp type {source.stamp.name} became {target.stamp.name}")
    return "; ".join(found)


def _shown(field: bytes | None) -> str:
    if field is None:
        return "null"
    text = repr(field[:SHOWN]) + ("…" if len(field) > SHOWN else "")
    return f"{text} ({len(field)} B)"


def _first_byte(one: bytes | None, other: bytes | None) -> str:
    if one is None or other is None:
        return ""
    pairs = zip(one, other, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    return f" from byte {at}"


def _headers(
    one: Sequence[tuple[str, bytes | None]], other: Sequence[tuple[str, bytes | None]]
) -> str:
    if len(one) != len(other):
        return f"{len(one)} headers became {len(other)}"
    if sorted(map(repr, one)) == sorted(map(repr, other)):
        return f"order of headers {[n for n, _ in one]} became {[n for n, _ in other]}"
    at = next(i for i, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    (name, value), (new_name, new_value) = one[at], other[at]
    return f"header {at} {name!r}: {_shown(value)} became {new_name!r}: {_shown(new_value)}"
