"""What a reader of the catalog keeps of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConnectionLostError,
    MirrorfleetError,
    UnknownVersionError,
)
from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber
from mirrorfleet.mapping import catalog
from mirrorfleet.mapping.catalog import CatalogView, follow_catalog
from mirrorfleet.records.catalog import (
    CatalogLoss,
    CatalogPartition,
    CatalogState,
    Removed,
    encode,
    partition_key,
)
from mirrorfleet.wire.records import Record
from tests.faultkit.waiting import until
from tests.unit.records.making import LINK, identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

LOSS = CatalogLoss(cause="source-truncated", first=10, end=20)
FIRST = CatalogPartition(
    identity=identity(0),
    link=LINK,
    source_topic="orders",
    target_topic="east.orders",
    slot=SlotNumber(1),
)
RECORD = Record(0, 1, *encode(FIRST))
SECOND = replace(FIRST, identity=identity(0, incarnation=1), loss=LOSS)


def removed(entry: CatalogPartition) -> CatalogPartition:
    return replace(entry, state=CatalogState.REMOVED)


def test_of_incarnations_that_ended_the_losses_alone_are_kept() -> None:
    view = CatalogView()
    third = replace(SECOND, identity=identity(0, incarnation=2))
    for entry in (FIRST, removed(FIRST), SECOND, removed(SECOND), third):
        view.apply(entry)

    assert view.of_link(LINK) == [third]
    assert view.losses == {SECOND.identity: LOSS, third.identity: LOSS}


def test_a_tombstone_takes_the_loss_away() -> None:
    view = CatalogView()
    view.apply(removed(SECOND))
    view.apply(Removed(partition_key(SECOND.identity), SECOND.identity))

    assert view.losses == {}


class Tail:
    """A tail that gives one record, or is refused; one after the other."""

    caught_up = True

    def __init__(self, results: list[MirrorfleetError | None]) -> None:
        self._results = results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Record]:
        error = self._results.pop(0) if self._results else ConnectionLostError("over")
        if error is not None:
            raise error
        yield RECORD


@pytest.mark.parametrize(
    ("results", "ends_with"),
    [
        ([AuthenticationError("wrong password")], AuthenticationError),
        ([None, AuthenticationError("wrong password"), None], None),
        ([None, UnknownVersionError("a newer format")], UnknownVersionError),
    ],
)
async def test_who_has_read_the_catalog_goes_on_while_a_login_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    results: list[MirrorfleetError | None],
    ends_with: type[MirrorfleetError] | None,
) -> None:
    monkeypatch.setattr(catalog, "_AGAIN_S", 0.0)
    monkeypatch.setattr(catalog, "ControlTail", lambda *_, **__: Tail(results))
    told: list[str] = []
    follow = follow_catalog(
        ClusterSettings(alias=ClusterAlias("west"), bootstrap=("x:1",)),
        FleetName("f"),
        CatalogView(),
        on_caught_up=lambda: None,
        on_trouble=told.append,
    )
    async with asyncio.TaskGroup() as group:
        following = group.create_task(outcome(follow))
        await until(
            lambda: following.done() or "over" in "".join(told), deadline_s=5, what="the end"
        )
        assert (following.result() if following.done() else None) == ends_with
        following.cancel()


async def outcome(work: Coroutine[object, object, None]) -> type[BaseException]:
    try:
        await work
    except MirrorfleetError as error:
        return type(error)
    raise AssertionError
