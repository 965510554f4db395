"""When a slot goes on without a partition, when it does not, and when it takes it back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.schedule import Setbacks
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.producer import ProduceAck
from mirrorfleet.records.formats import LEVELS
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.quarantine import HealedError, WedgedError
from tests.unit.slots.wedged import CONTROL, MAIN, SICK, SPARE, WELL, Look, World

if TYPE_CHECKING:
    from mirrorfleet.slots import sending


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def ack(error: ErrorCode, at: TopicPartition = SICK) -> ProduceAck:
    return ProduceAck(at.topic, at.partition, error, 0, -1, 0, None, (), None)


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
async def test_what_is_pending_in_two_looks_is_left_behind(world: World, state: str) -> None:
    world.looks = [(state, (SICK, WELL)), (state, (SICK,))]

    with pytest.raises(WedgedError, match=r"has not ended its transaction in east\.orders-0"):
        await world.wedges.check()

    assert world.wedges.left_behind == {SICK}
    assert world.wedges.id_in_use == SPARE


async def test_once_it_is_known_what_is_in_the_way_nothing_is_waited_for(world: World) -> None:
    setbacks: Setbacks = world.runner.setbacks
    for _ in range(4):
        setbacks.another(world.now)
    world.looks = [("PrepareAbort", (SICK,))] * 2
    with pytest.raises(WedgedError):
        await world.wedges.check()
    setbacks.another(world.now)
    assert setbacks.wait_s(1.0) <= 0.1


@pytest.mark.parametrize(
    "looks",
    [
        [("CompleteCommit", ())],
        [("Ongoing", (SICK,))],
        [("PrepareCommit", (SICK,)), ("CompleteCommit", ())],
        [("PrepareCommit", (SICK,)), ("PrepareCommit", (WELL,))],
        [("PrepareCommit", (SICK, CONTROL)), ("PrepareCommit", (SICK, CONTROL))],
        [DeadlineError("no answer")],
        [BrokerError(ErrorCode.NOT_COORDINATOR, "east")],
    ],
    ids=["ended", "open", "ends", "moves on", "nowhere to write to", "no answer", "refused"],
)
async def test_what_may_go_on_is_waited_for(world: World, looks: list[Look]) -> None:
    world.looks = list(looks)

    await world.wedges.check()

    assert (world.wedges.left_behind, world.wedges.id_in_use, world.looks) == (
        frozenset(),
        MAIN,
        [],
    )


@pytest.mark.parametrize(
    "found",
    [frozenset({CONTROL}), frozenset({WELL}), DeadlineError("no answer")],
    ids=["positions open", "another open", "unknown"],
)
async def test_nothing_is_left_behind_while_the_main_id_may_have_more_open(
    world: World, found: frozenset[TopicPartition] | Exception
) -> None:
    world.well = frozenset({WELL})
    world.looks = [("PrepareCommit", (SICK, WELL))] * 2
    world.open_at = found

    await world.wedges.check()

    assert (world.wedges.left_behind, world.looks) == (frozenset(), [])


async def test_only_the_sick_one_is_left_behind_of_those_whose_markers_nobody_has_confirmed(
    world: World,
) -> None:
    """Its marker is appended and not replicated: the broker does not answer for the others either,
    whose markers were in the same request.
    """
    world.well = frozenset({WELL, CONTROL})
    world.looks = [("PrepareCommit", (SICK, WELL, CONTROL))] * 2

    with pytest.raises(WedgedError, match=r"has not ended its transaction in east\.orders-0$"):
        await world.wedges.check()

    assert world.wedges.left_behind == {SICK}


@pytest.mark.parametrize(
    ("in_sync", "replicas", "least"),
    [
        ((1, 2, 3), 3, 3),
        ((1, 2), 3, 2),
        ((1,), 1, 2),
        ((1, 2), 3, BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")),
    ],
    ids=["all are", "as many as are asked for", "there is but one", "nobody may know"],
)
async def test_only_what_has_no_leader_or_too_few_in_sync_is_left_behind(
    world: World, in_sync: tuple[int, ...], replicas: int, least: int | BrokerError
) -> None:
    world.in_sync, world.replicas, world.least = in_sync, replicas, least
    world.looks = [("PrepareCommit", (SICK,))] * 2
    await world.wedges.check()
    assert (world.wedges.left_behind, world.looks) == (frozenset(), [])

    world.leader = -1
    world.looks = [("PrepareCommit", (SICK,))] * 2
    with pytest.raises(WedgedError):
        await world.wedges.check()


@pytest.mark.parametrize(
    ("well", "avoided"), [(None, {SICK}), (3, {SICK}), (2, {SICK, WELL}), (1, {SICK, WELL})]
)
async def test_the_spare_id_does_not_write_where_too_few_replicas_are_in_sync_either(
    world: World, well: int | None, avoided: set[TopicPartition]
) -> None:
    world.short = {SICK: 2} | ({} if well is None else {WELL: well})
    world.looks = [("PrepareCommit", (SICK,))] * 2
    assert world.wedges.avoided == set()
    with pytest.raises(WedgedError):
        await world.wedges.check()
    assert world.wedges.avoided == avoided
    world.short = {}
    assert world.wedges.avoided == set()


async def test_suspects_are_left_behind_at_the_first_look_after_the_abort(world: World) -> None:
    world.in_sync = (1, 2, 3)
    world.wedges.suspect([SICK])
    world.looks = [("Ongoing", (SICK,)), ("PrepareAbort", (SICK,))]

    world.short = {WELL: 2}
    await world.wedges.check()  # before the transaction is aborted
    with pytest.raises(WedgedError):
        await world.wedges.after(AbortError("the connection was closed by us"))
    assert world.wedges.avoided == {WELL}


async def test_a_suspect_whose_marker_was_written_is_suspected_no_longer(world: World) -> None:
    world.wedges.suspect([SICK])
    world.looks = [("CompleteAbort", ())]

    await world.wedges.after(AbortError("the connection was closed by us"))
    await world.wedges.after(AbortError("something else"))

    assert world.looks == []


async def test_only_the_owner_leaves_partitions_behind_and_only_from_format_level_2_on(
    world: World,
) -> None:
    world.runner.formats = LEVELS[1]
    await world.wedges.check()
    world.runner.formats = LEVELS[2]
    world.wedges.forget()
    await world.wedges.check()

    assert world.asked == 0


async def test_a_first_request_that_is_refused_for_long_is_looked_into_now_and_again(
    world: World,
) -> None:
    busy = [ack(ErrorCode.CONCURRENT_TRANSACTIONS)]
    await world.wedges.refused(busy, 0.1)
    assert world.asked == 0
    world.looks = [("CompleteCommit", ()), ("CompleteCommit", ())]
    await world.wedges.refused(busy, 0.5)
    world.now -= 0.9  # since the look 0.1 s have passed
    await world.wedges.refused(busy, 0.6)
    assert world.asked == 1
    world.now += 0.5
    await world.wedges.refused(busy, 1.0)
    assert world.asked == 2
    with pytest.raises(AbortError, match="for too long"):
        await world.wedges.refused(busy, 10.1)


async def test_a_partition_with_too_few_replicas_ends_the_transaction_that_waits_for_it(
    world: World,
) -> None:
    few = ack(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.looks = [("Ongoing", (WELL,))]  # the coordinator has not added it
    await world.wedges.refused([few], 0.5)
    assert world.looks == []
    world.now += 1.0
    world.looks = [("Ongoing", (WELL, SICK))]
    with pytest.raises(AbortError, match=r"east\.orders-0 has too few") as caught:
        await world.wedges.refused([few], 1.0)
    await world.wedges.before_abort()  # it was seen open
    world.looks = [("CompleteCommit", ())]
    await world.wedges.before_abort()
    assert world.looks == []

    world.looks = [("PrepareAbort", (SICK, WELL)), ("PrepareAbort", (SICK,))]
    with pytest.raises(WedgedError):
        await world.wedges.after(caught.value)
    await world.wedges.after(AbortError("something else"))


async def test_the_slot_is_taken_whole_when_nothing_has_been_pending_for_a_while(
    world: World,
) -> None:
    world.wedges.left_behind = frozenset({SICK})
    pending, ended = ("PrepareCommit", (SICK,)), ("CompleteCommit", ())
    world.wedges.end_if_healed()
    world.looks = [pending, *[ended] * 2, pending, ended, DeadlineError(""), *[ended] * 4]

    await world.wedges.watch(cast("sending.Sender", None))

    assert world.looks == []
    with pytest.raises(HealedError):
        world.wedges.end_if_healed()
    assert world.wedges.id_in_use == MAIN


async def test_while_one_is_left_behind_it_is_looked_who_else_falls_short(world: World) -> None:
    """What the spare id has written there it could not end, and the whole slot would stand."""
    world.wedges.left_behind = frozenset({SICK})
    world.looks = [("CompleteCommit", ())] * 4

    await world.wedges.watch(cast("sending.Sender", None))

    assert len(world.renewals) == 4


async def test_what_comes_back_sick_soon_is_taken_back_later(world: World) -> None:
    waits = []
    for _ in range(6):
        with pytest.raises(WedgedError):
            world.wedges.leave([SICK])
        world.looks = [("CompleteCommit", ())] * 40
        await world.wedges.watch(cast("sending.Sender", None))
        waits.append(40 - len(world.looks))  # a second each
        with pytest.raises(HealedError):
            world.wedges.end_if_healed()

    assert waits == [4, 6, 10, 18, 32, 32]
    world.now += 60
    with pytest.raises(WedgedError):
        world.wedges.leave([SICK])
    world.looks = [("CompleteCommit", ())] * 4
    await world.wedges.watch(cast("sending.Sender", None))


async def test_a_coordinator_is_remembered_from_one_look_to_the_next_of_a_judgement_alone(
    world: World,
) -> None:
    pending = ("PrepareCommit", (SICK,))
    world.looks = [pending, ("CompleteCommit", ()), pending, pending, *[("CompleteCommit", ())] * 4]
    await world.wedges.check()
    with pytest.raises(WedgedError):
        await world.wedges.check()
    await world.wedges.watch(cast("sending.Sender", None))

    assert world.coordinators == [{}, {MAIN: 1}] * 2 + [None] * 4


@pytest.mark.parametrize(
    ("is_taken", "is_member", "left"),
    [(True, True, {SICK}), (True, False, set()), (False, False, {SICK})],
    ids=["a member", "who overslept", "asked before it is taken"],
)
async def test_with_an_id_that_is_taken_only_a_member_leaves_partitions_behind(
    world: World, *, is_taken: bool, is_member: bool, left: set[TopicPartition]
) -> None:
    """Else they may be of another owner's transaction."""
    world.runner.spare.is_taken, world.is_member = is_taken, is_member
    world.looks = [("PrepareAbort", (SICK,))] * 2

    with suppress(WedgedError):
        await world.wedges.check()

    assert world.wedges.left_behind == left
