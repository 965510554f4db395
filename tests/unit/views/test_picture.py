"""Where clusters, links and the parts of a ruler are drawn."""

from __future__ import annotations

import pytest

from mirrorfleet.views.models import ClusterView, LinkView
from mirrorfleet.views.pages import link_view, look
from mirrorfleet.views.picture import Ruler, ruler, topology
from mirrorfleet.views.standing import row_of, standings
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry, fleet, report, snapshot


def cluster(alias: str) -> ClusterView:
    return ClusterView(
        alias=alias,
        cluster_id=None,
        brokers=None,
        reachable=None,
        trouble="",
        trouble_time_ms=None,
        fleet=None,
        is_read=None,
    )


def link(source: str, target: str) -> LinkView:
    made = link_view(look(fleet([]), LINK, NOW))
    return made.model_copy(update={"source": source, "target": target})


def test_a_pair_stands_side_by_side_and_its_two_links_do_not_cover_each_other() -> None:
    found = topology(
        [cluster("east"), cluster("west")], [link("east", "west"), link("west", "east")]
    )

    assert [(round(node.x), round(node.y)) for node in found.nodes] == [(104, 120), (756, 120)]
    (there, back) = found.edges
    assert there.path == "M195 89 Q430 8 665 89"
    assert back.path == "M665 151 Q430 232 195 151"
    assert (there.x, there.y, back.y) == (430, 21, 219)


@pytest.mark.parametrize("number", [1, 2, 3, 7, 12])
def test_every_cluster_is_inside_the_picture(number: int) -> None:
    found = topology([cluster(str(n)) for n in range(number)], [])

    assert all(84 <= node.x <= found.width - 84 for node in found.nodes)
    assert all(29 <= node.y <= found.height - 29 for node in found.nodes)


def test_a_link_to_a_cluster_that_is_not_shown_is_left_out() -> None:
    assert topology([cluster("east")], [link("east", "gone")]).edges == []


@pytest.mark.parametrize(
    ("at", "stable", "end", "parts"),
    [
        (105, 105, 105, Ruler(1.0, 0.0, 0.0)),
        (55, 80, 105, Ruler(0.5, 0.25, 0.25)),
        (5, 105, 105, Ruler(0.0, 1.0, 0.0)),
    ],
)
def test_the_ruler_divides_the_log(at: int, stable: int, end: int, parts: Ruler) -> None:
    one = entry()
    told = report(one, next_source=at, last_stable=stable, high_watermark=end)
    (standing,) = standings(fleet([one], snapshot(told)), LINK, NOW)

    assert ruler(row_of(standing, NOW)) == parts


def test_a_small_part_is_still_seen_and_an_unknown_log_has_no_ruler() -> None:
    one = entry()
    big = report(one, next_source=1_000_000, last_stable=1_000_001, high_watermark=1_000_001)
    (standing,) = standings(fleet([one], snapshot(big)), LINK, NOW)
    unread = report(one, high_watermark=-1, last_stable=-1)
    (unknown,) = standings(fleet([one], snapshot(unread)), LINK, NOW)

    shown = ruler(row_of(standing, NOW))

    assert shown is not None
    assert round(shown.waiting, 3) == 0.038
    assert ruler(row_of(unknown, NOW)) is None
