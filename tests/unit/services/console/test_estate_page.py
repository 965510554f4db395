"""The first page, on which somebody decides whether to move over."""

from __future__ import annotations

import pytest

from mirrorfleet.records.samples import Verdict
from mirrorfleet.views.models import ClusterView, EstateView
from services.console import rendering
from tests.unit.views.making import NOW


@pytest.mark.parametrize(
    ("reachable", "trouble", "word"),
    [
        (True, "", "3 brokers"),
        (True, "west: fleet 'west' has no catalog topic yet.", "cannot be read"),
        (False, "west: no broker answers.", "not reachable"),
    ],
)
def test_a_cluster_that_answers_is_not_called_out_of_reach(
    reachable: bool,  # noqa: FBT001 - a column of the table above
    trouble: str,
    word: str,
) -> None:
    west = ClusterView(
        alias="west",
        cluster_id="W",
        brokers=3,
        reachable=reachable,
        trouble=trouble,
        trouble_time_ms=None,
        fleet="west",
        is_read=not trouble,
    )
    estate = EstateView(
        estate="demo",
        now_ms=NOW,
        words="",
        verdict=Verdict.OK,
        clusters=[west],
        links=[],
        events=[],
    )

    page = rendering.live("estate.html", {"v": estate, "estate": "demo"})

    words = ("3 brokers", "cannot be read", "not reachable")
    assert [one for one in words if f">{one}</text>" in page] == [word]
