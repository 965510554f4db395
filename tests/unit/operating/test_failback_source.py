"""`failback`: nobody is brought home to a cluster that is not the home that the catalog knows."""

from __future__ import annotations

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, RefusedError
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.operating import failback
from tests.unit.mapping.test_asking import ENTRY, catalog_of
from tests.unit.operating.test_failback import READ, SEEN, Region, _clusters
from tests.unit.records.making import LINK

__all__ = ["_clusters"]


async def test_a_source_that_was_built_anew_is_no_source_of_which_nobody_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_catalog(*_: object) -> CatalogView:
        return catalog_of(LINK)

    monkeypatch.setattr(failback, "read_catalog", read_catalog)
    region = Region({}, {"g1": READ})
    region.east.cluster_id = ENTRY.identity.source_cluster
    assert [each.group for each in await region.found()] == ["g1"]

    region.east.cluster_id = "anew"
    with pytest.raises(RefusedError, match="alias east means cluster anew now, but the catalog of"):
        await region.found()


@pytest.mark.parametrize("side", ["east", "west"])
async def test_a_group_of_which_a_commit_is_not_decided_yet_stays(side: str) -> None:
    """What it committed last is not what its coordinator tells without being asked to be sure."""
    region = Region({"g1": SEEN}, {"g1": READ})
    of_side = {"east": region.east, "west": region.west}[side]
    of_side.undecided = {"g1": BrokerError(ErrorCode.UNSTABLE_OFFSET_COMMIT, "OffsetFetch")}

    (left,) = await region.made()

    assert left.trouble.startswith(f"{side}: OffsetFetch: UNSTABLE_OFFSET_COMMIT")
    assert region.east.committed == {}
