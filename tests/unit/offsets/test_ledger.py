"""What the gap ledger answers for, of one incarnation of a partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.offsets.ledger import Told, ledger_of
from mirrorfleet.records.events import Event, EventKind
from tests.unit.offsets.making import gap_of
from tests.unit.offsets.test_homes import entry

ENTRY = entry()
GAP = gap_of(ENTRY, 5, 8)
DROPS = replace(GAP, kind=EventKind.RECORDS_DROPPED, first=20, end=30, records=2)


def explained(*events: Event, of: range = range(40), since_ms: int | None = None) -> list[int]:
    ledger = ledger_of(ENTRY, [Told(each.time_ms, each) for each in events], since_ms)
    return [offset for offset in of if ledger.explains(offset)]


def test_a_gap_answers_for_all_of_its_range() -> None:
    assert explained() == []
    assert explained(GAP) == [5, 6, 7]
    assert explained(replace(GAP, first=7, end=9), GAP) == [5, 6, 7, 8]
    assert explained(GAP, replace(GAP, first=10, end=11)) == [5, 6, 7, 10]


def test_drops_answer_for_as_many_as_were_told() -> None:
    assert explained(DROPS, of=range(24, 40)) == [24, 25]
    assert explained(DROPS, DROPS) == [20, 21], "an event may be there twice"
    overlapping = replace(DROPS, first=25, end=32, records=1)
    assert explained(DROPS, overlapping) == [20, 21, 22]
    beside = replace(DROPS, first=30, end=32, records=1)
    assert explained(DROPS, beside) == [20, 21, 30]
    assert explained(replace(DROPS, records=None)) == list(range(20, 30))


def test_a_gap_within_drops_takes_none_of_their_number() -> None:
    assert explained(DROPS, replace(GAP, first=20, end=22)) == [20, 21, 22, 23]


@pytest.mark.parametrize(
    "other",
    [
        {"link": Link(ClusterAlias("north"), ENTRY.link.target)},
        {"link": None},
        {"topic": "others"},
        {"partition": 9},
        {"kind": EventKind.REWOUND},
        {"cause": "source-recreated"},
        {"cause": "source-truncated"},
        {"first": None},
        {"end": None},
    ],
)
def test_what_is_told_of_others_or_in_other_offsets_answers_for_nothing(
    other: dict[str, object],
) -> None:
    assert explained(replace(GAP, **other)) == []  # type: ignore[arg-type]  # a field each


def test_what_came_before_the_incarnation_answers_for_nothing_of_it() -> None:
    old, new = replace(GAP, time_ms=10), replace(GAP, first=30, end=31, time_ms=20)
    assert explained(old, new, since_ms=20) == [30]
    assert explained(old, new, since_ms=21) == []
