"""Members of a group whose coordinator falls silent, with its connections open: real brokers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.kafka.membership import SESSION_S, Membership
from mirrorfleet.runtime.clock import SystemClock
from services.local.region import RegionSpec
from tests.contract.kafka.making import new_topic
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from tests.conftest import Regions

GROUP = "mirrorfleet.silent.mirror"
SLOTS = frozenset(SlotNumber(number) for number in range(4))
MOST_S = 28.0
"""9 s until the cluster fences the broker, a session, 4 s to be put out, and to join again; a
client alone waits 30 s for its answer before it looks for another coordinator."""


def member(cluster: Cluster, topic: str, number: int) -> Membership:
    return Membership(
        cluster,
        group=GROUP,
        topic=topic,
        owner=f"mirror:h:{number}:aa",
        clock=SystemClock(),
        known=lambda: (SLOTS, SLOTS),
    )


def shared_out(members: list[Membership], after: float) -> bool:
    """Whether each has its half, in one generation, and was heard of since."""
    slots = [one.share.slots if one.share else frozenset() for one in members]
    return (
        sorted(len(each) for each in slots) == [2, 2]
        and slots[0] | slots[1] == SLOTS
        and len({one.generation for one in members}) == 1
        and all(one.confirmed_at >= after for one in members)
    )


@pytest.mark.timeout(180)
async def test_members_find_each_other_again_while_their_coordinator_is_silent(
    regions: Regions,
) -> None:
    (region,) = regions(RegionSpec(name="silent", brokers=3))
    async with Cluster(region.settings()) as cluster, asyncio.TaskGroup() as group:
        topic = (await new_topic(cluster)).name
        members = [member(cluster, topic, number) for number in (1, 2)]
        running = [group.create_task(one.run()) for one in members]
        began = float("-inf")
        await until(lambda: shared_out(members, began), deadline_s=60, what="shares")
        coordinator = await find_coordinator(cluster, GROUP, CoordinatorKind.GROUP, 10)

        silent = region.broker(coordinator)
        silent.pause()
        try:
            began = time.monotonic() + SESSION_S
            await until(lambda: shared_out(members, began), deadline_s=MOST_S, what="shares again")
            took_s = time.monotonic() - began + SESSION_S
            print(f"members again {took_s:.1f} s after their coordinator fell silent")
            await until(lambda: not members[0].trouble, deadline_s=5, what="no trouble")
        finally:
            silent.resume()
        for task in running:
            task.cancel()
