"""What a reader of the catalog keeps of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    MirrorfleetError,
    RefusedError,
    UnknownVersionError,
)
from mirrorfleet.core.ids import ClusterAlias, ClusterId, FleetName, SlotNumber
from mirrorfleet.mapping import catalog
from mirrorfleet.mapping.catalog import CatalogView, follow_catalog
from mirrorfleet.records.catalog import (
    CatalogConfig,
    CatalogLink,
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


def test_what_was_removed_is_kept_for_who_has_its_map_until_it_is_copied_again() -> None:
    view, other = CatalogView(keeps_removed=True), CatalogView()
    for entry in (FIRST, removed(FIRST), SECOND):
        view.apply(entry)
        other.apply(entry)

    assert view.partitions == other.partitions == {SECOND.identity: SECOND}
    assert view.mapped == [SECOND, removed(FIRST)]
    assert other.mapped == [SECOND]
    view.apply(FIRST)
    assert (view.mapped, view.removed) == ([SECOND, FIRST], {})


def test_a_tombstone_takes_a_removed_partition_away() -> None:
    view = CatalogView(keeps_removed=True)
    view.apply(removed(FIRST))
    view.apply(Removed(partition_key(FIRST.identity), FIRST.identity))

    assert view.mapped == []


def test_a_tombstone_takes_the_loss_away() -> None:
    view = CatalogView()
    view.apply(removed(SECOND))
    view.apply(Removed(partition_key(SECOND.identity), SECOND.identity))

    assert view.losses == {}


def test_an_alias_that_means_another_cluster_now_is_refused() -> None:
    view, fleet = CatalogView(), FleetName("f")
    here, other = ClusterId("east-1"), ClusterId("east-2")
    view.check_source(LINK.source, other, fleet)
    view.apply(CatalogLink(link=LINK, source_cluster=here, target_cluster=other, slots=()))

    view.check_source(LINK.source, here, fleet)
    with pytest.raises(RefusedError, match="alias east means cluster east-2 now"):
        view.check_source(LINK.source, other, fleet)


class Tail:
    """A tail that gives its records, or is refused; one after the other."""

    caught_up = True

    def __init__(
        self, results: list[MirrorfleetError | None], records: tuple[Record, ...] = (RECORD,)
    ) -> None:
        self._results, self._records = results, records

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Record]:
        error = self._results.pop(0) if self._results else ConnectionLostError("over")
        if error is not None:
            raise error
        for number, record in enumerate(self._records, 1):
            self.caught_up = number == len(self._records)
            yield record


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


SETTINGS = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("x:1",))
DENIED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "west")
MAY_NOT = "User:ANONYMOUS may not READ Topic:__mirrorfleet.f.catalog on west"


async def test_who_may_not_read_the_catalog_is_named_at_first_and_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalog, "_AGAIN_S", 0.0)
    results: list[MirrorfleetError | None] = [DENIED]
    monkeypatch.setattr(catalog, "ControlTail", lambda *_, **__: Tail(results))
    told: list[str] = []
    follow = follow_catalog(
        SETTINGS, FleetName("f"), CatalogView(), on_caught_up=nothing, on_trouble=told.append
    )
    with pytest.raises(BrokerError, match=MAY_NOT):
        await follow

    results += [None, DENIED, UnknownVersionError("a newer format")]
    with pytest.raises(UnknownVersionError):
        await follow_catalog(
            SETTINGS, FleetName("f"), CatalogView(), on_caught_up=nothing, on_trouble=told.append
        )
    (later,) = told
    assert MAY_NOT in later
    assert later.endswith("`mirrorfleet acls` prints what is needed.")


async def test_a_catalog_that_is_half_read_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level = Record(0, 2, *encode(CatalogConfig(generation=1, format_level=2)))
    results: list[MirrorfleetError | None] = [None, UnknownVersionError("the end")]
    tail = Tail(results, (RECORD, level))
    monkeypatch.setattr(catalog, "_AGAIN_S", 0.0)
    monkeypatch.setattr(catalog, "ControlTail", lambda *_, **__: tail)
    view, shown = CatalogView(), list[tuple[int, int]]()
    with pytest.raises(UnknownVersionError):
        await follow_catalog(
            SETTINGS,
            FleetName("f"),
            view,
            on_caught_up=lambda: shown.append((view.format_level, len(view.partitions))),
            on_trouble=lambda _: None,
        )
    assert shown == [(2, 1)]


async def test_a_catalog_that_is_read_anew_is_shown_when_it_is_read_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It begins with what was long ago, so that a slot would lose partitions and get them back."""
    view, meanwhile = CatalogView(), list[int]()

    class Watched(Tail):
        async def __aiter__(self) -> AsyncIterator[Record]:
            async for record in super().__aiter__():
                yield record
                meanwhile.append(len(view.partitions))

    gone = Record(0, 0, *encode(removed(FIRST)))
    other = Record(0, 0, *encode(replace(FIRST, identity=identity(1))))
    whole = (other, gone, RECORD)
    tails = [Watched([None], whole), Watched([None], whole), Tail([UnknownVersionError("the end")])]
    monkeypatch.setattr(catalog, "_AGAIN_S", 0.0)
    monkeypatch.setattr(catalog, "ControlTail", lambda *_, **__: tails.pop(0))
    with pytest.raises(UnknownVersionError):
        await follow_catalog(
            SETTINGS, FleetName("f"), view, on_caught_up=nothing, on_trouble=lambda _: None
        )
    assert meanwhile == [0, 0, 2, 2, 2, 2]


def nothing() -> None:
    pass
