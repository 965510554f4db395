"""Both sides of a copy in step: what is equal, missing, changed, or on the target alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.verifying import Bounds, Span, Step, Verified, place_in, span_of
from mirrorfleet.wire.records import Record
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import entry

ENTRY = entry()


def copies(*runs: tuple[int, int, int]) -> Copies:
    """Source [first, end) is target from a place on, of each run."""
    index = OffsetIndex()
    index.add(ENTRY.identity, [run_of(*run) for run in runs])
    return Copies([ENTRY], index)


def record(offset: int, **changed: object) -> Record:
    made = Record(offset, 1_000, b"k", b"v", ((b"h", b"1"),))
    return made._replace(**changed)  # type: ignore[arg-type]  # fields by name, as the caller knows them


def compared(
    sources: list[Record],
    targets: list[Record],
    of: Copies | None = None,
    *,
    is_retimed: bool = False,
) -> Verified:
    found = Verified(place_in(of or copies((0, 10, 100)), ENTRY), is_retimed=is_retimed)
    one, other = 0, 0
    while one < len(sources) or other < len(targets):
        here = sources[one] if one < len(sources) else None
        there = targets[other] if other < len(targets) else None
        step = found.step(here, there)
        one += step is not Step.TARGET
        other += step is not Step.SOURCE
    return found


def counts(found: Verified) -> tuple[int, list[int], list[int], list[int]]:
    return found.equal, found.missing.first, found.changed.first, found.extra.first


def test_records_in_their_places_are_equal() -> None:
    found = compared([record(n) for n in (0, 3, 9)], [record(n) for n in (100, 103, 109)])

    assert counts(found) == (3, [], [], [])
    assert found.is_intact


@pytest.mark.parametrize(
    ("targets", "missing", "extra"),
    [
        ([100, 102], [1], []),
        ([100, 101], [2], []),
        ([101, 102], [0], []),
        ([], [0, 1, 2], []),
        ([99, 100, 101, 102], [], [99]),
        ([100, 101, 102, 103], [], [103]),
    ],
)
def test_what_one_side_has_alone_is_told(
    targets: list[int], missing: list[int], extra: list[int]
) -> None:
    found = compared([record(n) for n in range(3)], [record(n) for n in targets])

    assert counts(found) == (3 - len(missing), missing, [], extra)
    assert not found.is_intact


@pytest.mark.parametrize(
    "changed",
    [{"value": None}, {"key": b"other"}, {"headers": ()}, {"timestamp": 1_001}],
    ids=["value", "key", "headers", "time"],
)
def test_a_record_that_is_not_the_same_is_changed(changed: dict[str, object]) -> None:
    found = compared([record(0), record(1)], [record(100), record(101, **changed)])

    assert counts(found) == (1, [], [1], [])
    retimed = compared([record(1)], [record(101, **changed)], is_retimed=True)
    assert retimed.is_intact == ("timestamp" in changed)


def test_a_record_that_was_not_copied_is_missing_and_not_taken_for_its_neighbour() -> None:
    """The map leads from 5 to where 6 is; with the same contents they would look alike."""
    found = compared(
        [record(n) for n in (4, 5, 6)],
        [record(n) for n in (104, 105)],
        copies((0, 5, 100), (6, 10, 105)),
    )

    assert counts(found) == (2, [5], [], [])


def test_some_offsets_are_told_of_many() -> None:
    found = compared([record(n) for n in range(9)], [])

    assert (found.missing.count, str(found.missing)) == (9, "0, 1, 2, 3, 4, ...")
    assert str(compared([record(1)], []).missing) == "1"


ALL = Bounds(0, 1_000, 0)
MANY = 1_000


@pytest.mark.parametrize(
    ("bounds", "first", "most", "span"),
    [
        (ALL, None, MANY, Span(10, 20, 100, 110)),
        (ALL, None, 3, Span(17, 20, 107, 110)),
        (ALL, 0, 3, Span(10, 13, 100, 103)),
        (ALL, 12, 3, Span(12, 15, 102, 105)),
        (ALL, 19, 9, Span(19, 20, 109, 110)),
        (replace(ALL, source_start=14), None, MANY, Span(14, 20, 104, 110)),
        (replace(ALL, source_end=14), None, MANY, Span(10, 14, 100, 104)),
        (replace(ALL, target_start=106), None, MANY, Span(16, 20, 106, 110)),
        (ALL, 20, 9, None),
        (replace(ALL, source_start=20), None, MANY, None),
        (replace(ALL, target_start=110), None, MANY, None),
        (replace(ALL, source_end=10), None, MANY, None),
    ],
)
def test_what_can_be_compared_is_copied_and_on_both_sides_still(
    bounds: Bounds, first: int | None, most: int, span: Span | None
) -> None:
    assert span_of(copies((10, 20, 100)), ENTRY, bounds, first, most) == span


def test_of_what_has_no_map_nothing_can_be_compared() -> None:
    empty = Copies([ENTRY], OffsetIndex())

    assert span_of(empty, ENTRY, ALL, None, MANY) is None
    assert place_in(empty, ENTRY)(0) is None  # type: ignore[arg-type]  # any offset
