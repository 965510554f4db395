"""What a link copied ends with it, though others are away; what does not end is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.planning.rules import Apply
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.syncing.settings import SyncSettings
from tests.unit.copying.making import entry
from tests.unit.services.mirror.test_sources import EAST, SOUTH
from tests.unit.services.sync.test_sources import OLD, Meeting

NOTE = "removed links"


class Removing(Meeting):
    """A link from before is not in the estate any more, and south does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        first = entry(link=OLD)
        self.copy = replace(first, identity=replace(first.identity, source_cluster=ClusterId("o")))
        self.known_as(OLD.source, "o", 1)
        self.book.learn(self.copy)
        self.away.add(SOUTH)

    @property
    def state(self) -> CatalogState:
        return self.book.partitions[self.copy.identity].state

    @property
    def said(self) -> str:
        return self.service._context.health.active.notes().get(NOTE, "")


async def test_a_link_that_was_removed_ends_though_a_source_that_the_catalog_knows_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Removing(monkeypatch)
    sync.known_as(SOUTH, "south", 2)

    await sync.begin()

    assert (sync.state, sync.said) == (CatalogState.REMOVED, "")
    assert SOUTH not in sync.known


async def test_a_link_that_may_be_one_that_is_away_goes_on_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Removing(monkeypatch)

    await sync.begin()

    assert sync.state is CatalogState.ACTIVE
    assert sync.said == (
        "link old->west is not in the estate and is still copied, because it may be one that is"
        " not met yet, under another name: south->west"
    )
    sync.away.clear()
    await sync.meet(SOUTH)
    assert (sync.state, sync.said) == (CatalogState.REMOVED, "")


async def test_an_alias_of_the_catalog_that_answered_as_the_removed_source_may_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Removing(monkeypatch)
    sync.known_as(SOUTH, "south", 2)
    sync.away.clear()
    sync.answering[SOUTH] = "o"

    await sync.begin()

    assert "is in the catalog as 'old'" in sync.reasons()["link south->west"]
    assert sync.state is CatalogState.ACTIVE


async def test_a_link_that_waits_for_a_person_is_said_until_it_was_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Removing(monkeypatch)
    sync.away.clear()
    sync.service._settings = SyncSettings(apply=Apply.MANUAL)

    await sync.begin()

    assert sync.state is CatalogState.ACTIVE
    assert sync.said == (
        "link old->west is not in the estate and is still copied, because it waits for"
        " `mirrorfleet apply`"
    )
    sync.book.learn(replace(sync.copy, state=CatalogState.REMOVED))
    await sync.service._retire_links()
    assert sync.said == ""


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_link_whose_target_has_another_name_is_refused_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, *, is_away: bool
) -> None:
    sync = Meeting(monkeypatch)
    before = Link(EAST, ClusterAlias("blue"))
    first = entry(link=before)
    copy = replace(first, identity=replace(first.identity, source_cluster=ClusterId("east")))
    sync.known_as(EAST, "east", 1)
    sync.book.learn(replace(sync.book.links[ClusterId("east")], link=before))
    sync.book.learn(copy)
    if is_away:
        sync.away.add(EAST)

    await sync.begin()
    sync.away.clear()
    with pytest.raises(RefusedError, match="its target is in the catalog as 'blue'"):
        await sync.meet(EAST)

    assert sync.known == [SOUTH]
    assert sync.book.partitions[copy.identity].state is CatalogState.ACTIVE
    assert sync.book.links[ClusterId("east")].link == before
