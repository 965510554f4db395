"""A member of a group for weeks: aiokafka's own coordinator on a network that is a stub."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from aiokafka.consumer import subscription_state

from mirrorfleet.copying.sharing import Share
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.kafka import membership
from mirrorfleet.records.members import Carried
from tests.faultkit.waiting import until
from tests.unit.kafka.grouped import SLOTS, Asked, Network, member

if TYPE_CHECKING:
    from aiokafka.consumer.group_coordinator import GroupCoordinator

    from mirrorfleet.kafka.membership import Membership


A_MONTH_S = 31 * 86_400.0


async def done_for(*_: object) -> list[object]:
    return []


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """What a member's client is, whose heartbeats follow each other soon."""
    made = Network()
    monkeypatch.setattr(membership, "AIOKafkaClient", lambda **_: made)
    monkeypatch.setattr(membership, "keep_up", lambda *_: None)
    monkeypatch.setattr(membership, "remove_leftovers", done_for)
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.05)
    return made


async def test_a_member_stays_one_for_weeks_without_reading_anything(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    passed = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed)
    monkeypatch.setattr(subscription_state, "time", clock)
    mine = member()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mine.run())
        await until(lambda: mine.share, deadline_s=10, what="a share")
        passed = A_MONTH_S
        network.asked.clear()
        await until(lambda: len(network.asked) >= 5, deadline_s=10, what="heartbeats")
        assert set(network.asked) == {"HeartbeatRequest"}
        running.cancel()


async def test_a_member_that_begins_anew_leaves_no_task_of_its_client_behind(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    """aiokafka looks for its coordinator, and is given up before it has ended its heartbeats."""
    monkeypatch.setattr(membership, "_LEAVE_S", 0.1)
    mine, before = member(), asyncio.all_tasks()
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.share, deadline_s=10, what="a share")
    coordinator = cast("GroupCoordinator", mine._coordinator)
    looks = asyncio.Event()

    async def look(*_: object) -> None:
        looks.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(network, "coordinator_lookup", look)
    coordinator.coordinator_dead()
    async with asyncio.timeout(10):
        await looks.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await until(lambda: asyncio.all_tasks() <= before, deadline_s=5, what="all tasks to end")


async def test_a_client_that_is_no_member_and_says_nothing_is_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "_OUTSIDE_S", 0.3)
    mine = member()
    silent = unaware()
    silent.generation = -1
    with pytest.raises(DeadlineError, match="no member"):
        async with asyncio.timeout(5):
            await mine._watch(cast("membership._Coordinator", silent))


@pytest.mark.parametrize("error", [AuthenticationError("wrong password"), ConfigError("no key")])
async def test_who_was_a_member_waits_for_secrets_that_are_half_renewed(
    monkeypatch: pytest.MonkeyPatch, error: MirrorfleetError
) -> None:
    mine = member()
    tries = 0

    async def be_member() -> None:
        nonlocal tries
        tries += 1
        raise error

    monkeypatch.setattr(mine, "_be_member", be_member)
    monkeypatch.setattr(membership, "_AGAIN_S", 0.01)
    with pytest.raises(type(error)):
        await mine.run()

    mine.share, tries = Share(SLOTS, frozenset()), 0
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mine.run())
        await until(lambda: tries > 2, deadline_s=5, what="another try")
        assert mine.trouble == str(error)
        running.cancel()


def joined(monkeypatch: pytest.MonkeyPatch, code: ErrorCode | None) -> tuple[Membership, Asked]:
    """A member whose client knows nothing of what its coordinator thinks."""
    mine, asked = member(), Asked(code)
    monkeypatch.setattr(mine, "_asked", asked)
    monkeypatch.setattr(membership, "call", asked.answer)
    mine.share, mine.generation, mine.confirmed_at = Share(SLOTS, frozenset()), 1, time.monotonic()
    mine._coordinator = cast("membership._Coordinator", unaware())
    return mine, asked


def unaware() -> SimpleNamespace:
    return SimpleNamespace(
        generation=1,
        member_id="me",
        coordinator_id=1,
        check_errors=lambda: None,
        request_rejoin=lambda: None,
    )


async def test_who_was_put_out_begins_anew_although_its_client_waits_for_the_old_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "_UNHEARD_S", 0.0)
    monkeypatch.setattr(membership, "_PUT_OUT_S", 0.3)
    mine, _ = joined(monkeypatch, ErrorCode.UNKNOWN_MEMBER_ID)
    assert mine._coordinator is not None
    with pytest.raises(DeadlineError, match="knows no member here"):
        async with asyncio.timeout(5):
            await mine._watch(mine._coordinator)
    assert mine.confirmed_at == float("-inf")


async def test_who_joins_again_by_itself_does_not_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "_PUT_OUT_S", 0.0)
    mine, _ = joined(monkeypatch, ErrorCode.UNKNOWN_MEMBER_ID)
    assert mine._coordinator is not None
    assert not await mine.confirm()
    assert mine._is_out(mine._coordinator, time.monotonic() + 1)
    mine._coordinator.member_id = "me again"
    assert not mine._is_out(mine._coordinator, time.monotonic() + 1)


async def test_a_generation_that_is_over_is_no_reason_to_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, _ = joined(monkeypatch, ErrorCode.ILLEGAL_GENERATION)
    assert mine._coordinator is not None
    before = mine.confirmed_at
    assert not await mine.confirm()
    assert mine.confirmed_at == before
    assert not mine._is_out(mine._coordinator, time.monotonic() + 60)


async def test_a_coordinator_that_cannot_be_reached_is_tried_once_for_all_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, asked = joined(monkeypatch, None)
    assert await asyncio.gather(*[mine.confirm() for _ in range(4)]) == [False] * 4
    assert asked.tries == 1
    assert not await mine.confirm()
    assert asked.tries == 2


async def test_slots_are_shared_out_anew_when_one_that_we_hold_may_be_moved_again() -> None:
    mine, diverted = member(), set(SLOTS)
    mine._carried = lambda: Carried(diverted=frozenset(diverted))
    mine._take(Share(SLOTS, frozenset()))
    assert mine._claim().diverted == SLOTS
    assert not mine._has_changed()
    diverted.clear()
    assert mine._has_changed()
    mine._take(Share(frozenset(), frozenset()))  # it is another's meanwhile
    assert not mine._has_changed()
    mine._take(Share(SLOTS, frozenset()))
    assert mine._claim().diverted == frozenset()
    diverted.update(SLOTS)  # where it is it can stay
    assert not mine._has_changed()


async def test_a_rebalance_at_another_coordinator_is_joined_although_the_old_one_is_silent(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    """Else the others would go on without us, and we wait for an answer to a heartbeat."""
    monkeypatch.setattr(membership, "_UNHEARD_S", 0.0)
    mine, asked = member(), Asked(ErrorCode.NONE)
    monkeypatch.setattr(mine, "_asked", asked)
    monkeypatch.setattr(membership, "call", asked.answer)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mine.run())
        await until(lambda: mine.share, deadline_s=10, what="a share")
        network.silent, network.coordinator = 1, 2
        network.asked.clear()
        await until(lambda: network.asked, deadline_s=10, what="a heartbeat")
        assert network.joined == [1]

        asked.node, asked.code = 2, ErrorCode.REBALANCE_IN_PROGRESS
        await until(lambda: 2 in network.joined, deadline_s=5, what="joining")
        running.cancel()


async def test_a_rebalance_that_was_joined_meanwhile_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, asked = joined(monkeypatch, ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator, again = cast("SimpleNamespace", mine._coordinator), list[int]()
    coordinator.request_rejoin = lambda: again.append(coordinator.generation)

    async def late(*given: object) -> object:
        coordinator.generation = 2
        return await asked.answer(*given)

    assert await mine.confirm()
    monkeypatch.setattr(membership, "call", late)
    assert await mine.confirm()

    assert again == [1]


async def test_no_answer_is_waited_for_much_longer_than_a_rebalance_may_take(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    """Who waits for a silent coordinator hears of no rebalance at the next one."""
    options: dict[str, object] = {}

    def client(**given: object) -> Network:
        options.update(given)
        return network

    monkeypatch.setattr(membership, "AIOKafkaClient", client)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(member().run())
        await until(lambda: network.joined, deadline_s=10, what="joining")
        running.cancel()

    assert options["request_timeout_ms"] == 8_000  # a JoinGroup is held back for 6 s


@pytest.mark.parametrize("is_held", [True, False])
async def test_who_stops_while_it_joins_leaves_all_the_same(
    monkeypatch: pytest.MonkeyPatch, network: Network, *, is_held: bool
) -> None:
    """aiokafka says goodbye after the answer to its JoinGroup, which the broker holds back."""
    monkeypatch.setattr(membership, "_CLOSE_S", 0.2)
    mine, asked = member(), Asked(ErrorCode.NONE)
    monkeypatch.setattr(mine, "_asked", asked)
    monkeypatch.setattr(membership, "call", asked.answer)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.share, deadline_s=10, what="a share")
    network.is_held = is_held
    mine.leave()
    await until(lambda: len(network.joined) == 2, deadline_s=10, what="joining")

    running.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await running

    assert (asked.left, "LeaveGroupRequest" in network.asked) == (["me"] * is_held, not is_held)


async def test_who_stops_while_its_coordinator_is_silent_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    monkeypatch.setattr(membership, "_LEAVE_S", 0.4)
    monkeypatch.setattr(membership, "_CLOSE_S", 0.2)
    mine, asked = member(), Asked(None)
    monkeypatch.setattr(mine, "_asked", asked)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.share, deadline_s=10, what="a share")
    network.silent = 1

    running.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await running

    assert asked.tries == 1


async def test_a_share_knows_that_we_leave_if_it_was_asked_for_after_that() -> None:
    leaving, given = member(), Share(SLOTS, frozenset())
    leaving._claim()
    leaving.leave()
    leaving._take(given)  # that of the claim before
    assert not leaving.knows_we_leave

    leaving._claim()
    leaving._take(given)
    assert leaving.knows_we_leave
