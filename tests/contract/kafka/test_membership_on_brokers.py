"""Members of a group whose coordinator falls silent, with its connections open, or where another
member does: real brokers.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.kafka.aiokafka_options import drop_member
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.kafka.group_members import GroupDescription, describe_groups
from mirrorfleet.kafka.groups import GroupState
from mirrorfleet.kafka.membership import SESSION_S, Membership
from mirrorfleet.records.members import Carried, Known
from mirrorfleet.runtime.clock import SystemClock
from services.local.region import Region, RegionSpec
from tests.contract.kafka.making import new_topic
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from tests.conftest import Regions

GROUP = "mirrorfleet.silent.mirror"
DEAD = "mirrorfleet.dead.mirror"
SLOTS = frozenset(SlotNumber(number) for number in range(4))
MOST_S = 28.0
"""9 s until the cluster fences the broker, a session, 4 s to be put out, and to join again; a
client alone waits 30 s for its answer before it looks for another coordinator."""


TAKEN_S = 24.0
"""For the slots of one that died with the coordinator: those 9 s, its session, and a rebalance that
all others join. Who hears of it too late is put out after 6 s more, and joins the next one.
"""


def member(cluster: Cluster, topic: str, number: int, group: str = GROUP) -> Membership:
    return Membership(
        cluster,
        group=group,
        topic=topic,
        owner=f"mirror:h:{number}:aa",
        clock=SystemClock(),
        known=lambda: Known(SLOTS, SLOTS),
        carried=Carried,
    )


def shared_out(members: list[Membership], after: float) -> bool:
    """Whether all have all slots, in one generation, and were heard of since."""
    slots = [one.share.slots if one.share else frozenset() for one in members]
    return (
        sorted(slot for each in slots for slot in each) == sorted(SLOTS)
        and all(slots)
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


@pytest.mark.timeout(180)
async def test_the_slots_of_a_member_that_dies_with_the_coordinator_are_taken_soon(
    regions: Regions,
) -> None:
    (region,) = regions(RegionSpec(name="silent", brokers=3))
    async with Cluster(region.settings()) as cluster, asyncio.TaskGroup() as group:
        topic = (await new_topic(cluster)).name
        members = [member(cluster, topic, number, DEAD) for number in (1, 2, 3)]
        running = [group.create_task(one.run()) for one in members]
        await until(lambda: shared_out(members, 0.0), deadline_s=60, what="shares")
        coordinator = await find_coordinator(cluster, DEAD, CoordinatorKind.GROUP, 10)

        silent = region.broker(coordinator)
        silent.pause()
        try:
            began = time.monotonic()
            running[0].cancel()  # its goodbye is heard by nobody
            await until(
                lambda: shared_out(members[1:], began), deadline_s=TAKEN_S, what="all slots"
            )
            print(f"all slots have owners after {time.monotonic() - began:.1f} s")
        finally:
            silent.resume()
        for task in running:
            task.cancel()


async def described(cluster: Cluster, group: str) -> GroupDescription:
    found = (await describe_groups(cluster, [group]))[group]
    assert not isinstance(found, BrokerError)
    return found


@pytest.mark.timeout(120)
async def test_who_stops_while_its_join_is_held_back_is_no_member_any_more(
    east: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker waits for a member that is silent, and then would for one that has ended."""
    name = f"mirrorfleet.{uuid4().hex[:8]}.mirror"
    async with Cluster(east.settings()) as cluster, asyncio.TaskGroup() as group:
        topic = (await new_topic(cluster)).name
        stopping, silent = (member(cluster, topic, number, name) for number in (1, 2))

        async def watch(_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(silent, "_watch", watch)
        running = [group.create_task(one.run()) for one in (stopping, silent)]
        both, ever = [stopping, silent], float("-inf")
        await until(lambda: shared_out(both, ever), deadline_s=60, what="shares")
        drop_member(silent._coordinator)
        stopping.leave()

        async def is_held() -> bool:
            return (await described(cluster, name)).state is GroupState.PREPARING_REBALANCE

        await until(is_held, deadline_s=SESSION_S, what="a rebalance")
        running[0].cancel()
        with suppress(asyncio.CancelledError):
            await running[0]
        members = (await described(cluster, name)).members
        assert "mirror:h:1:aa" not in {one.client_id for one in members}
        running[1].cancel()
