"""When a format level may be raised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import FleetName
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.syncing import leveling
from mirrorfleet.syncing.leveling import Levels, check_raise, levels

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.syncing.store import Store

WEST = FleetName("west")


@pytest.fixture
def next_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that knows level 2."""
    monkeypatch.setattr(leveling, "KNOWN_LEVEL", 2)


@pytest.mark.usefixtures("next_build")
def test_it_is_raised_when_every_worker_knows_it() -> None:
    check_raise(WEST, Levels(1, {"mirror:a": 2, "mirror:b": 3}), 2)
    check_raise(WEST, Levels(1, {}), 2)


@pytest.mark.usefixtures("next_build")
def test_workers_that_do_not_know_it_are_named() -> None:
    with pytest.raises(RefusedError, match=r"1 workers of fleet west do not know .* 2: mirror:b"):
        check_raise(WEST, Levels(1, {"mirror:a": 2, "mirror:b": 1}), 2)


@pytest.mark.usefixtures("next_build")
@pytest.mark.parametrize("wanted", [1, 2])
def test_it_is_never_lowered_and_not_raised_twice(wanted: int) -> None:
    with pytest.raises(RefusedError, match="writes format level 2 already"):
        check_raise(WEST, Levels(2, {}), wanted)


async def test_of_a_fleet_without_a_catalog_no_level_is_told() -> None:
    """A name that is mistyped is such a one."""

    async def refresh() -> None:
        pass

    store = SimpleNamespace(refresh=refresh, book=CatalogBook())
    cluster = cast("Cluster", SimpleNamespace(name="west"))

    with pytest.raises(RefusedError, match="west: fleet 'west' has no catalog yet"):
        await levels(cluster, WEST, cast("Store", store))


def test_a_level_that_this_build_does_not_know_is_refused() -> None:
    with pytest.raises(RefusedError, match="knows format levels up to 2, not 3"):
        check_raise(WEST, Levels(1, {}), 3)
