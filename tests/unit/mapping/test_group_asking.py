"""What both clusters say of a group, for the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.group_members import GroupDescription, GroupMember
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.mapping import group_asking
from mirrorfleet.mapping.group_asking import GroupAsker
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.kafka.cluster import Cluster

Descriptions = dict[str, GroupDescription | BrokerError]
KEPT_FROM_US = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "group g")
JOINED = GroupDescription("g", GroupState.STABLE, (GroupMember("m-1", "till-7", "/kiosk"),))


async def list_groups(*_: object, **__: object) -> dict[str, ListedGroup]:
    return {"g": ListedGroup("g", GroupState.STABLE, 1)}


async def fetch_offsets(_: str, names: Iterable[str], **__: object) -> dict[str, GroupOffsets]:
    return {name: {} for name in names}


async def describe_groups(cluster: str, *_: object, **__: object) -> Descriptions:
    return {"g": KEPT_FROM_US if cluster == "east" else JOINED}


async def test_members_that_a_cluster_does_not_tell_are_not_none_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for one in (list_groups, fetch_offsets, describe_groups):
        monkeypatch.setattr(group_asking, one.__name__, one)
    east, west = cast("Cluster", "east"), cast("Cluster", "west")

    facts = await GroupAsker(east, west, SystemClock(), 1.0).group("g", Copies([], OffsetIndex()))

    assert facts.source_states == {"g": "Stable"}
    assert (facts.source_members, facts.target_members) == (None, ["till-7 at kiosk"])
