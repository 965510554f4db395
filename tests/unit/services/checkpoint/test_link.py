from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.kafka.groups import GroupState, ListedGroup
from mirrorfleet.runtime.clock import SystemClock
from services.checkpoint.link import LinkGroups, _Seen
from services.checkpoint.settings import CheckpointSettings
from tests.unit.planning.samples import a_flow

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

EMPTY = {"g": ListedGroup("g", GroupState.EMPTY, 1)}


def test_how_long_a_group_is_idle_counts_from_when_we_look_again() -> None:
    """As a standby nobody looked: it may have been at work on the target in between."""
    cluster = cast("Cluster", SimpleNamespace(settings=None, dice=None, name="fake"))
    link = LinkGroups(a_flow("orders"), cluster, cluster, CheckpointSettings(), SystemClock())

    def idle_s(now: float) -> float:
        seen = _Seen(EMPTY, {}, EMPTY, {})
        return link._view("g", (), seen, now).idle_s

    idle = [idle_s(100.0), idle_s(160.0)]
    link.forget()
    idle += [idle_s(1_000.0), idle_s(1_005.0)]

    assert idle == [0.0, 60.0, 0.0, 5.0]
