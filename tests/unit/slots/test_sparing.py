"""The spare id of a slot is taken before it is needed, and goes on at once when it is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.core.errors import ConnectionLostError, DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import ProducerIdentity, SlotNumber, TopicPartition
from mirrorfleet.records.formats import LEVELS
from mirrorfleet.slots import diverting, endings, sparing, taking
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.sparing import Spare
from tests.faultkit.waiting import until
from tests.unit.slots.stubs import proven
from tests.unit.slots.test_runner import Member, Pauses

if TYPE_CHECKING:
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

DEADLINE_S = 5.0
COPY = TopicPartition("east.orders", 0)


class World:
    """A slot that is copied, and what becomes of its spare id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: list[MirrorfleetError] = []
        self.seen: list[str] = []
        self.epoch = 0
        self.runner = SimpleNamespace(
            number=SlotNumber(3),
            formats=LEVELS[2],
            settings=SimpleNamespace(keep_alive_s=-1.0),
            dice=SimpleNamespace(uniform=lambda low, high: low),
            wedges=SimpleNamespace(left_behind=frozenset(), spare_id="t.spare"),
            entries={},
            targets=SimpleNamespace(of=lambda *_: LeaderAt(1, 0)),
            control_partition=lambda kind: COPY,
            produce_lane=self._lane,
            allowances={1: proven()},
            clock=SimpleNamespace(monotonic=lambda: 1.0),
            doubts=SimpleNamespace(connected=lambda node: self.seen.append(f"connected {node}")),
        )
        self.spare = Spare(cast("SlotRunner", self.runner))
        monkeypatch.setattr(sparing, "fence_settled", self._fence)
        monkeypatch.setattr(endings, "transactions_of", self._transactions)
        for wait in ("AFTER_S", "LOOK_S"):
            monkeypatch.setattr(sparing, wait, 0.0)

    def _transactions(self, _: object, name: str) -> SimpleNamespace:
        assert name == "t.spare"
        connect, close = self._connect, lambda: self.seen.append("closed")
        return SimpleNamespace(connect=connect, close=close)

    async def _connect(self, deadline_s: float) -> None:
        self.seen.append("coordinator")
        if self.error:
            raise self.error.pop()

    async def _lane(self, node: int, name: str) -> SimpleNamespace:
        self.seen.append(f"lane {node} {name}".rstrip())
        end = SimpleNamespace(closed=False)
        return SimpleNamespace(connection=end, close=lambda: self.seen.append("lane closed"))

    async def _fence(self, *_: object, only_member_s: float) -> ProducerIdentity:
        assert only_member_s == sparing.TAKE_S
        self.seen.append("fenced")
        if self.error:
            raise self.error.pop()
        self.epoch += 1
        return ProducerIdentity(7, self.epoch)

    async def kept(self, times: int) -> None:
        """Let it be taken so often, and stop."""
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            keep = group.create_task(self.spare.keep())
            await until(
                lambda: self.seen.count("fenced") >= times, deadline_s=5, what="it to be taken"
            )
            await asyncio.sleep(0)
            keep.cancel()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_it_is_taken_again_before_it_is_forgotten_and_handed_over_once(world: World) -> None:
    await world.kept(2)

    ready = world.spare.handed_over()
    assert ready is not None
    assert ready.producer.epoch == world.epoch >= 2
    assert (world.spare.is_taken, world.spare.handed_over()) == (False, None)


async def test_what_went_wrong_is_tried_again(world: World) -> None:
    world.error.append(DeadlineError("the coordinator is away"))
    await world.kept(2)

    assert world.spare.is_taken


async def test_it_stays_taken_until_its_coordinator_may_forget_it(world: World) -> None:
    world.runner.settings.keep_alive_s = 3600.0
    await world.kept(1)
    keep = asyncio.ensure_future(world.spare.keep())
    for _ in range(20):
        await asyncio.sleep(0)
    keep.cancel()

    assert world.seen.count("fenced") == 1


async def test_who_writes_what_older_builds_read_takes_none(world: World) -> None:
    world.runner.formats = LEVELS[1]
    keep = asyncio.ensure_future(world.spare.keep())
    for _ in range(20):
        await asyncio.sleep(0)
    keep.cancel()

    assert world.seen == []


async def test_while_the_slot_is_copied_with_it_nobody_takes_it(world: World) -> None:
    """Its own owner would be fenced."""
    world.runner.wedges.left_behind = frozenset({COPY})
    async with asyncio.timeout(DEADLINE_S):
        await world.spare.keep()

    assert world.seen == []


async def test_of_two_that_want_it_one_waits_for_the_other(world: World) -> None:
    async with world.spare.alone:
        keep = asyncio.ensure_future(world.spare.keep())
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.seen == []
    await until(lambda: world.spare.is_taken, deadline_s=5, what="it to be taken")
    keep.cancel()


async def test_connections_made_ahead_are_the_slots_when_it_goes_on_with_them(world: World) -> None:
    await world.kept(1)
    world.seen.clear()

    await world.spare.reach()
    assert sorted(world.seen) == ["coordinator", "lane 1 t.spare"]
    ready = world.spare.handed_over()
    assert ready is not None
    assert world.seen[2:] == ["connected 1"]
    assert (await ready.pipes.to(1)).lane.connection.closed is False
    assert len(list(ready.pipes)) == 1


async def test_connections_that_were_not_needed_end_and_it_stays_taken(world: World) -> None:
    await world.kept(1)
    world.seen.clear()
    world.error.append(ConnectionLostError("nobody is there"))

    await world.spare.reach()
    world.spare.rest()
    world.spare.rest()

    assert world.seen.count("lane closed") == 1
    taken = [world.spare.is_taken]
    world.spare.drop()
    taken.append(world.spare.is_taken)
    await world.spare.reach()
    assert (taken, world.seen.count("coordinator")) == ([True, False], 1)


async def test_while_it_is_being_taken_nothing_is_reached_that_its_end_would_not_close(
    world: World,
) -> None:
    await world.kept(1)
    world.seen.clear()

    async with world.spare.alone:
        await world.spare.reach()

    assert world.seen == []


async def test_what_is_connected_to_when_it_is_dropped_is_left_open_by_nobody(world: World) -> None:
    await world.kept(1)
    world.seen.clear()
    lane = world.runner.produce_lane

    async def slow(node: int, name: str) -> object:
        world.spare.drop()
        return await lane(node, name)

    world.runner.produce_lane = slow
    await world.spare.reach()

    assert world.seen.count("lane closed") == 1
    assert world.seen[-1] == "closed"


# -- the run of a slot


async def test_with_an_id_that_is_taken_the_group_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was asked a moment ago, when the partition was left behind."""
    member, asked = Member(), list[list[bool]]()
    runner = member.runner

    async def wedged(_: object) -> Sender:
        runner.move(SlotState.FENCING)
        runner.spare._taken = cast("tuple[Transactions, ProducerIdentity]", (None, None))
        runner.wedges.leave([COPY])

    async def divert(_: object) -> Sender:
        asked.append(list(member.words))
        runner.spare._taken = None
        return await member.take(runner)

    member.words = [True, True]
    monkeypatch.setattr(taking, "take", wedged)
    monkeypatch.setattr(diverting, "divert", divert)
    await runner.run(Pauses(2))

    assert asked == [[True]]
