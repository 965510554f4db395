"""Groups that a cluster refuses: a note for people and a number for alerts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.metrics import Metrics
from services.checkpoint.report import register_gauges, shut_out
from tests.unit.copying.making import LINK

if TYPE_CHECKING:
    from mirrorfleet.mapping.following import MapFollower
    from services.checkpoint.link import LinkGroups


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (set(), ""),
        ({"b", "a"}, "offsets do not follow for a, b: /status says why"),
        (set("dcba"), "offsets do not follow for a, b, c and others: /status says why"),
    ],
)
def test_who_is_shut_out_is_said_and_counted(groups: set[str], said: str) -> None:
    looked = SimpleNamespace(
        shut_out=groups, report=SimpleNamespace(link=LINK, homes=dict, looked_at=None)
    )
    link, metrics = cast("LinkGroups", looked), Metrics()
    follower = cast("MapFollower", SimpleNamespace(index=OffsetIndex(), complete_at=None))
    register_gauges(metrics, SystemClock(), [link], follower)
    families = {family.name: family for family in metrics.families()}

    assert shut_out(link) == said
    assert [s.value for s in families[names.GROUPS_REFUSED.name].samples] == [len(groups)]
