"""What an operator pauses, resumes and throttles, as the catalog is told of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import FencedError, MirrorfleetError, OutdatedError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, FleetName, Link
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.syncing import pausing
from tests.unit.copying.making import LINK, entry, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

ACTIVE, PAUSED, REMOVED = CatalogState.ACTIVE, CatalogState.PAUSED, CatalogState.REMOVED
ORDERS = entry(0).source_topic


class Store:
    """A catalog that others write to some times before we do."""

    def __init__(
        self,
        *entries: CatalogPartition,
        others: int = 0,
        trouble: type[MirrorfleetError] = OutdatedError,
    ) -> None:
        self.entries, self.others, self.trouble = entries, others, trouble
        self.published: list[CatalogPartition] = []
        self.is_closed = False
        self.refreshed = 0

    @property
    def book(self) -> SimpleNamespace:
        return SimpleNamespace(partitions={each.identity: each for each in self.entries})

    async def refresh(self) -> None:
        self.refreshed += 1

    async def publish(self, changed: Sequence[CatalogPartition]) -> None:
        if self.others:
            self.others -= 1
            raise self.trouble("somebody else wrote")
        self.published.extend(changed)

    def close(self) -> None:
        self.is_closed = True

    async def mark(
        self,
        patched: pytest.MonkeyPatch,
        asked: str,
        wish: pausing.Wish = pausing.Standing(PAUSED),  # noqa: B008 - it is frozen
    ) -> list[pausing.Row]:
        patched.setattr(pausing, "Store", lambda *_: self)
        try:
            return await pausing.marked(cast("Cluster", None), FleetName("west"), LINK, asked, wish)
        finally:
            assert self.is_closed


def state_of(number: int, state: CatalogState) -> CatalogPartition:
    return replace(entry(number), state=state)


async def test_a_whole_topic_is_paused_but_for_what_is_already_and_what_is_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = replace(entry(3), link=Link(ClusterAlias("north"), LINK.target))
    others = replace(entry(4), source_topic="others")
    store = Store(state_of(1, PAUSED), entry(0), state_of(2, REMOVED), elsewhere, others)

    rows = await store.mark(monkeypatch, ORDERS)

    assert [(row["partition"], row["before"], row["now"]) for row in rows] == [
        (0, "active", "paused"),
        (1, "paused", "paused"),
    ]
    assert store.published == [state_of(0, PAUSED)]


async def test_one_partition_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(state_of(0, PAUSED), state_of(1, PAUSED))

    rows = await store.mark(monkeypatch, f"{ORDERS}-1", pausing.Standing(ACTIVE))

    assert [row["partition"] for row in rows] == [1]
    assert store.published == [entry(1)]


async def test_a_throttle_is_asked_for_whatever_the_rule_says_and_state_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(entry(0, throttle=70_000), state_of(1, PAUSED))

    rows = await store.mark(monkeypatch, ORDERS, pausing.Throttled(5_000_000, {}))

    assert [(row["before"], row["now"]) for row in rows] == [(70_000, 5_000_000), (None, 5_000_000)]
    assert store.published == [
        replace(entry, throttle=5_000_000, throttle_asked=True) for entry in store.entries
    ]


async def test_without_one_the_rule_has_its_say_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(entry(0), rule="slow", throttle=5_000_000, throttle_asked=True)
    plain = replace(asked, identity=identity(1), rule="others")
    store = Store(asked, plain, entry(2))

    rows = await store.mark(monkeypatch, ORDERS, pausing.Throttled(None, {"slow": 70_000}))

    assert [row["now"] for row in rows] == [70_000, None, None]
    assert store.published == [
        replace(asked, throttle=70_000, throttle_asked=False),
        replace(plain, throttle=None, throttle_asked=False),
    ]


async def test_a_topic_whose_name_is_all_of_it_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(
        entry(0), identity=replace(identity(0), incarnation=7), source_topic=f"{ORDERS}-1"
    )
    store = Store(entry(1), whole)

    assert [row["topic"] for row in await store.mark(monkeypatch, f"{ORDERS}-1")] == [f"{ORDERS}-1"]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        (f"{ORDERS}-7", "It has partitions 0 to 1."),
        ("nothing", "all of them: mirrorfleet status --target west"),
    ],
)
async def test_what_is_not_copied_is_refused_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch, asked: str, hint: str
) -> None:
    store = Store(entry(0), entry(1))

    with pytest.raises(RefusedError, match=f"east->west copies no {asked}") as caught:
        await store.mark(monkeypatch, asked)

    assert hint in str(caught.value.hint)
    assert store.published == []


@pytest.mark.parametrize("trouble", [OutdatedError, FencedError])
@pytest.mark.parametrize(("others", "is_done"), [(4, True), (5, False)])
async def test_what_sync_writes_meanwhile_is_read_and_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    others: int,
    trouble: type[MirrorfleetError],
    *,
    is_done: bool,
) -> None:
    store = Store(entry(0), others=others, trouble=trouble)

    if is_done:
        await store.mark(monkeypatch, ORDERS)
    else:
        with pytest.raises(trouble):
            await store.mark(monkeypatch, ORDERS)

    assert (store.refreshed, bool(store.published)) == (5, is_done)
