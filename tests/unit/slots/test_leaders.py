"""The table of leaders: what it says of one, and how soon it is read again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.kafka.leaders import PUT_BACK_S
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta
from mirrorfleet.slots import leaders
from mirrorfleet.slots.leaders import (
    LEAST_S,
    RENEW_S,
    REST,
    SOON_S,
    TROUBLE_S,
    UNWANTED_S,
    LeaderAt,
    Leaders,
    Role,
)
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
AGAIN = UUID("00000000-0000-4000-8000-00000000000b")


class World:
    """A cluster with one topic of two partitions; time as it is told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.leader, self.epoch = 1, 4
        self.topic_id = ORDERS
        self.replicas: tuple[int, ...] = (1, 2)
        self.isr: tuple[int, ...] = (1, 2)
        self.is_there = True
        self.takes = 0.0
        self.read = 0
        self.asked: list[str] = []
        clock = SimpleNamespace(monotonic=lambda: self.now)
        cluster = SimpleNamespace(metadata=self._metadata)
        self.table = Leaders(cast("Cluster", cluster), cast("Clock", clock), Role.TARGET)
        self.table.need(["orders"])

    async def _metadata(self, topics: list[str]) -> SimpleNamespace:
        self.read += 1
        self.now += self.takes
        self.asked = topics
        one = PartitionMeta(self.leader, self.epoch, self.replicas, self.isr, (), ErrorCode.NONE)
        two = PartitionMeta(2, 4, (1, 2), (1, 2), (), ErrorCode.NONE)
        topic = TopicMeta("orders", self.topic_id, ErrorCode.NONE, False, {0: one, 1: two})
        return SimpleNamespace(topics={"orders": topic} if self.is_there else {})

    async def told(self, leader: int, epoch: int) -> LeaderAt | None:
        """What the table has after such an answer."""
        self.leader, self.epoch = leader, epoch
        await self.table.renew()
        return self.table.of("orders", 0)


async def test_a_partition_lacks_a_leader_only_when_the_cluster_has_said_so() -> None:
    world = World()
    assert not world.table.lacks("orders", 0)  # nobody was asked yet
    world.leader = -1
    await world.table.renew()
    assert [world.table.lacks("orders", number) for number in range(2)] == [True, False]
    world.is_there = False
    await world.table.renew()
    assert world.table.lacks("orders", 1)


async def test_how_many_replicas_are_in_sync_is_told_where_some_are_not() -> None:
    world = World()
    world.isr = (2,)
    await world.table.renew()
    assert [world.table.in_sync("orders", number) for number in range(2)] == [1, None]
    assert world.table.is_short("orders", 0)
    world.isr = (1, 2)
    await world.table.renew()
    assert world.table.in_sync("orders", 0) is None


async def test_a_broker_that_lags_behind_does_not_bring_an_earlier_leader_back() -> None:
    """It was cut off from the controllers, and not from us."""
    world = World()
    assert await world.told(2, 5) == LeaderAt(2, 5)
    assert await world.told(1, 4) == LeaderAt(2, 5)
    assert await world.told(3, 5) == LeaderAt(3, 5)
    world.topic_id = AGAIN
    assert await world.told(1, 4) == LeaderAt(1, 4)


@pytest.mark.parametrize("is_there", [True, False], ids=["no leader", "no topic"])
async def test_nor_while_there_is_no_leader_which_is_asked_for_all_the_time(
    *, is_there: bool
) -> None:
    world = World()
    assert await world.told(2, 5) == LeaderAt(2, 5)
    world.is_there = is_there
    assert await world.told(-1, 5) is None
    world.is_there = True
    assert await world.told(1, 4) is None
    assert world.table._renewed_after_s == SOON_S
    assert await world.told(2, 6) == LeaderAt(2, 6)


async def test_an_earlier_epoch_that_all_answers_have_is_that_of_a_cluster_put_back() -> None:
    """From a copy of its disks; nothing that it says would be believed any more."""
    world = World()
    for _ in range(3):
        assert await world.told(2, 5) == LeaderAt(2, 5)
        world.now += PUT_BACK_S - 1
        assert await world.told(1, 4) == LeaderAt(2, 5)
    world.now += 1
    assert await world.told(1, 4) == LeaderAt(1, 4)


async def test_it_is_read_every_second_while_a_leader_is_missing_or_was_just_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, waits = World(), list[float]()
    timeout = asyncio.timeout

    def counted(seconds: float) -> asyncio.Timeout:
        waits.append(seconds)
        return timeout(0)

    monkeypatch.setattr(leaders, "LEAST_S", 0.0)
    monkeypatch.setattr(leaders, "ASKED_REST", 0.0)
    monkeypatch.setattr(leaders, "asyncio", SimpleNamespace(timeout=counted, sleep=asyncio.sleep))

    async def next_wait() -> float:
        seen = len(waits)
        await until(lambda: len(waits) > seen + 1, deadline_s=5, what="two more looks")
        return waits[-1]

    keeping = asyncio.create_task(world.table.keep())
    assert await next_wait() == RENEW_S
    world.table.ask()
    assert await next_wait() == SOON_S
    world.now += TROUBLE_S
    assert await next_wait() == RENEW_S
    world.leader = -1
    assert await next_wait() == SOON_S
    world.takes = 0.125
    assert await next_wait() == REST * world.takes
    world.takes = 1.0
    assert await next_wait() == RENEW_S
    world.leader, world.takes = 2, 0.0
    assert await next_wait() == RENEW_S
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping


@pytest.mark.parametrize(("takes", "rest"), [(0.0, LEAST_S), (0.125, 0.5), (7.5, SOON_S)])
async def test_whoever_asks_all_the_time_gets_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes: float, rest: float
) -> None:
    """Of ten thousand partitions a look takes long, and each that is held back asks for another.

    One that a frozen broker made long says nothing of the next.
    """
    world, pauses = World(), list[float]()
    world.takes = takes
    sleep = asyncio.sleep

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        world.table.ask()
        await sleep(0)

    monkeypatch.setattr(leaders, "asyncio", SimpleNamespace(timeout=asyncio.timeout, sleep=paused))
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(world.table.keep())
        await until(lambda: len(pauses) > 2, deadline_s=5, what="three looks")
        keeping.cancel()

    assert set(pauses) == {rest}


def answering_late(world: World) -> asyncio.Event:
    """The cluster answers once the gate is open."""
    gate, read = asyncio.Event(), world.table.cluster.metadata

    async def slow(topics: list[str]) -> object:
        await gate.wait()
        return await read(topics)

    world.table.cluster.metadata = slow  # type: ignore[assignment, method-assign]  # a stub
    return gate


async def test_all_who_ask_during_a_look_share_the_next_one() -> None:
    world = World()
    gate = answering_late(world)
    async with asyncio.TaskGroup() as group:
        group.create_task(world.table.renewed())
        await asyncio.sleep(0)
        asking = [group.create_task(world.table.renewed()) for _ in range(100)]
        await asyncio.sleep(0)
        gate.set()

    assert all(each.done() for each in asking)
    assert world.read == 2  # that under way may have been answered before they asked


async def test_of_a_topic_that_is_needed_only_since_a_look_began_the_look_tells_nothing() -> None:
    world = World()
    gate = answering_late(world)
    async with asyncio.TaskGroup() as group:
        group.create_task(world.table.renew())
        await asyncio.sleep(0)
        world.table.need(["audit"])
        gate.set()
    world.now += 60.0

    assert not world.table.lacks("audit", 0)
    assert world.table.absent_for("audit") == 0.0


async def test_a_topic_that_nobody_needs_is_forgotten_after_a_while_and_may_come_back() -> None:
    """A transaction may have it still; and with all that ever were each look would take longer."""
    world = World()
    table = world.table
    table.need(["audit"])
    await table.renew()
    assert world.asked == ["audit", "orders"]

    table.keep_only(["orders"])
    world.now += UNWANTED_S
    await table.renew()
    assert world.asked == ["audit", "orders"]
    table.need(["audit"])
    world.now += UNWANTED_S
    await table.renew()
    assert world.asked == ["audit", "orders"]

    table.keep_only(["audit"])
    assert table.of("orders", 0) is not None
    world.now += UNWANTED_S + 1.0
    await table.renew()

    assert world.asked == ["audit"]
    assert (table.of("orders", 0), table.topic_id("orders")) == (None, None)


async def test_the_table_is_of_when_its_last_renewal_began_that_came_to_an_end() -> None:
    world = World()
    world.takes = 3.0
    assert world.table.as_of < 0
    await world.table.renew()
    assert (world.table.as_of, world.now) == (100.0, 103.0)

    async def fail(_: list[str]) -> SimpleNamespace:
        raise DeadlineError("west does not answer")

    world.table.cluster = cast("Cluster", SimpleNamespace(metadata=fail))
    with suppress(DeadlineError):
        await world.table.renew()
    assert world.table.as_of == 100.0


@pytest.mark.parametrize(
    ("replicas", "isr", "few"),
    [((1, 2, 3), (1, 2), False), ((1, 2, 3), (1,), True), ((1, 2), (2,), False)],
)
async def test_a_partition_of_ours_has_few_when_it_takes_nothing(
    replicas: tuple[int, ...], isr: tuple[int, ...], *, few: bool
) -> None:
    world = World()
    world.replicas, world.isr = replicas, isr
    await world.table.renew()
    assert world.table.has_few("orders", 0) is few
    world.isr = replicas
    await world.table.renew()
    assert not world.table.has_few("orders", 0)
