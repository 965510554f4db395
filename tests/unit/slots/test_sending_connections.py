"""Connections of a sender that end: at rest between transactions, at rest in one, in flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import AuthenticationError, ConnectionLostError, DeadlineError
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.slots import taking
from mirrorfleet.slots.outgoing import AbortError, ControlEntry
from mirrorfleet.wire.records import control_batch
from tests.faultkit.waiting import until
from tests.unit.copying.making import BIG, fetched, give, identity
from tests.unit.slots.settled import CONTROL, COPY, OTHER, POSITIONS, World
from tests.unit.slots.stubs import PRODUCER, Coordinator, Lane, Target, sender_of

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.runner import SlotRunner


async def first_answered(world: World) -> None:
    """A transaction is open at a broker."""
    await until(lambda: world.log.held, deadline_s=5, what="the first request")
    world.log.held.pop()()


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_where_a_connection_closed_at_rest_the_leaders_are_asked_and_nothing_is_aborted(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion
) -> None:
    world = World(monkeypatch, version)
    assert await world.copied(0, 1)
    closed = dict(world.lanes)

    closed[1].lose()
    assert await world.doubts.settle(world.sender)
    assert (world.looks, world.doubts.doubted, world.asked) == ([[OTHER]], set(), 0)
    assert await world.copied(1)
    assert world.lanes[1] is not closed[1]
    assert (world.lanes[0], world.lanes[2]) == (closed[0], closed[2])

    for lane in world.lanes.values():
        lane.lose()
    assert await world.doubts.settle(world.sender)
    assert sorted(world.looks[1:]) == [[COPY], [OTHER], [*CONTROL]]
    assert await world.copied(0, 1)
    assert world.log.seen.count("commit") == 3
    assert not {"abort", "init"}.intersection(world.log.seen)


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_an_owner_whose_idle_connections_are_all_closed_can_still_commit_control_records(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion
) -> None:
    world = World(monkeypatch, version)
    entries = [ControlEntry(POSITIONS, control_batch([(b"key", b"value")], 5))]
    await world.sender.commit_control(entries)
    for lane in world.lanes.values():
        lane.lose()
    await world.doubts.settle(world.sender)

    await world.sender.commit_control(entries)
    assert world.log.seen.count("commit") == 2


async def test_what_the_ledger_has_is_counted_once_it_is_committed_and_not_before() -> None:
    target = Target()
    sender, runner = sender_of(target)
    gap = Event(kind=EventKind.GAP, time_ms=1, writer="me", detail="")
    entries = [ControlEntry(POSITIONS, control_batch([(b"key", b"value")], 5), [gap])]

    target.refuse(POSITIONS.topic, ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(AbortError):
        await sender.commit_control(entries)
    assert runner.told == []
    await sender.abort()
    await sender.commit_control(entries)

    assert runner.told == [gap]


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_what_a_broker_left_open_whose_connection_closed_at_rest_ends_before_it_is_written_to(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion
) -> None:
    world = World(monkeypatch, version)
    await world.copied(1)
    world.lanes[1].lose()
    world.open[OTHER] = [(PRODUCER, 100)]  # of that commit
    before = len(world.log.seen)

    await world.settled()
    assert world.log.seen[before:] == ["state", f"add {OTHER}", "commit", "coordinator closed"]


async def test_a_partition_whose_broker_is_not_heard_of_since_its_connection_closed_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    await world.copied(0, 1)
    world.lanes[1].lose()
    world.unreachable = {OTHER}
    assert await world.doubts.settle(world.sender)
    assert (world.doubts.doubted, world.asked) == ({OTHER}, 1)

    before = len(world.log.seen)
    assert await world.copied(0, 1)
    assert f"produce {COPY}" in world.log.seen[before:]
    assert f"produce {OTHER}" not in world.log.seen[before:]


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_a_connection_that_is_lost_with_something_in_flight_aborts(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion
) -> None:
    world = World(monkeypatch, version)
    world.log.hold_data = True

    async def lose() -> None:
        await first_answered(world)
        await until(lambda: len(world.log.held) == 2, deadline_s=5, what="two more in flight")
        world.lanes[0].lose()

    with pytest.raises(AbortError, match="no answer to a produce request"):
        await asyncio.gather(world.copied(0, batches=3), lose())
    assert world.sender.pipes.drop_closed() == set()
    assert world.doubts.lost(0)
    assert "commit" not in world.log.seen


@pytest.mark.parametrize("version", list(TransactionVersion))
async def test_a_connection_that_is_lost_at_rest_in_an_open_transaction_aborts_what_would_follow(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion
) -> None:
    world = World(monkeypatch, version)
    world.log.hold_data = True

    async def lose() -> None:
        await first_answered(world)
        world.lanes[0].lose()

    with pytest.raises(AbortError, match="the connection to target broker 0 was lost"):
        await asyncio.gather(world.copied(0, batches=2), lose())
    assert "commit" not in world.log.seen


async def test_a_broker_that_refuses_our_login_aborts_and_does_not_end_the_hold_of_the_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)

    async def refused(node: int, name: str) -> Lane:
        raise AuthenticationError(f"broker {node}: the certificate has expired")

    vars(world.runner)["produce_lane"] = refused
    with pytest.raises(AbortError, match="no connection to target broker 1: broker 1: the cert"):
        await world.sender.pipes.to(1)


async def test_connections_are_made_ahead_to_all_that_lead_and_no_broker_gets_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    slow, asked = asyncio.Event(), list[int]()
    connect = world.runner.produce_lane

    async def slowly(node: int, name: str) -> Lane:
        asked.append(node)
        await slow.wait()
        if node == 1:
            raise ConnectionLostError("nobody is there")
        return await connect(node, name)

    vars(world.runner)["produce_lane"] = slowly
    pipes = world.sender.pipes
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        ahead = group.create_task(pipes.made_ahead())
        await until(lambda: len(asked) == 3, deadline_s=5, what="all to be asked")
        needed = group.create_task(pipes.to(2))
        await asyncio.sleep(0)
        slow.set()
        await ahead

    assert sorted(asked) == [0, 1, 2]
    assert len(list(pipes)) == 2
    assert await pipes.to(2) is needed.result()
    with pytest.raises(AbortError, match="no connection to target broker 1"):
        await pipes.to(1)


async def test_one_that_was_made_ahead_and_closed_since_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing was sent there: while the id is taken a broker may be restarted."""
    world = World(monkeypatch)
    pipes = world.sender.pipes
    await pipes.made_ahead()
    assert set(world.lanes) == {0, 1, 2}

    async def fence(*_: object) -> ProducerIdentity:
        world.lanes[2].lose()
        return PRODUCER

    monkeypatch.setattr(taking, "fence_settled", fence)
    coordinator = cast("Transactions", Coordinator(world.log, TransactionVersion.V2))
    sender = await taking.fenced(cast("SlotRunner", world.runner), coordinator, pipes)

    assert not (await sender.pipes.to(2)).lane.connection.closed
    world.lanes[1].lose()
    with pytest.raises(AbortError, match="the connection to target broker 1 was lost"):
        await sender.pipes.to(1)


async def test_what_was_committed_is_in_doubt_until_a_position_that_is_remembered_tells_of_it() -> (
    None
):
    sender, seen = sender_of(Target())
    entries = [ControlEntry(POSITIONS, control_batch([(b"key", b"value")], 5))]
    end = seen.coordinator.end
    vars(seen.coordinator)["end"] = AsyncMock(side_effect=DeadlineError("no answer"))
    with pytest.raises(DeadlineError):
        await sender.commit_control(entries)
    assert seen.wedges.is_undecided
    vars(seen.coordinator)["end"] = end
    await sender.commit_control(entries)  # a quarantine record: what was read up to it is to come
    assert seen.wedges.is_undecided
    give(seen.slot, seen.slot.partitions[identity()], fetched((0, [BIG])), end=1)
    assert await sender.transact()
    assert not seen.wedges.is_undecided
