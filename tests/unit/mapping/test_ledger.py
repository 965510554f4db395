"""The gap ledger of what is copied now, out of a fleet's events and catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import FleetName
from mirrorfleet.mapping import ledger
from mirrorfleet.records import catalog, events
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.wire.records import Record
from tests.unit.offsets.making import gap_of
from tests.unit.offsets.test_homes import entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

ONE = entry()
SECOND = replace(ONE, identity=replace(ONE.identity, incarnation=1))


def gap(first: int, **changed: object) -> bytes:
    made = gap_of(ONE, first, first + 1)
    return events.encode(replace(made, **changed))[1]  # type: ignore[arg-type]  # fields by name


async def answered(
    patched: pytest.MonkeyPatch,
    of: CatalogPartition,
    told: Sequence[tuple[int, bytes | None]],
    entries: Sequence[tuple[int, CatalogPartition]] = (),
) -> list[int]:
    """Offsets below 10 that the ledger answers for."""
    topics = {
        "__mirrorfleet.west.events": [Record(0, at, None, value) for at, value in told],
        "__mirrorfleet.west.catalog": [Record(0, at, *catalog.encode(one)) for at, one in entries],
    }

    async def read_control(_: Cluster, name: str, take: Callable[[Record], None]) -> bool:
        for record in topics.pop(name):
            take(record)
        return True

    patched.setattr(ledger, "read_control", read_control)
    found = await ledger.read_ledgers(cast("Cluster", None), FleetName("west"), [of])
    is_first = of.identity.incarnation == 0
    assert ("__mirrorfleet.west.catalog" in topics) is is_first, "a first one has none before it"
    return [offset for offset in range(10) if found[of.identity].explains(offset)]


async def test_events_of_the_ledger_answer_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        (1, gap(3)),
        (2, gap(4, kind="records-dropped", records=1)),
        (3, gap(5, kind="rewound")),
        (4, gap(6, kind="rewound", detail='not a "gap"')),
        (5, None),
        (6, b'{"kind":"gap"'),
    ]
    assert await answered(monkeypatch, ONE, told) == [3, 4]


async def test_of_a_later_incarnation_what_came_after_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed = replace(ONE, state=CatalogState.REMOVED)
    other = replace(removed, target_topic="elsewhere")
    told = [(10, gap(3)), (20, gap(4)), (30, gap(5))]

    entries = [(15, removed), (20, removed), (5, removed), (40, other), (50, SECOND)]
    assert await answered(monkeypatch, SECOND, told, entries) == [4, 5]
    assert await answered(monkeypatch, SECOND, told, [(40, other)]) == [3, 4, 5]
