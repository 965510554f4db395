"""A slot goes on with its spare id, without what is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock

import pytest

from mirrorfleet.copying.recall import Recall
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, FencedError
from mirrorfleet.core.ids import PartitionIdentity, ProducerIdentity, TargetOffset, TopicPartition
from mirrorfleet.offsets.ahead import Compared
from mirrorfleet.records.positions import Barrier, Entry, Fence, encode
from mirrorfleet.slots import diverting, endings, rebuilding, succession, taking
from mirrorfleet.slots.outgoing import ControlEntry, RetakeError
from mirrorfleet.slots.sparing import Ready
from tests.unit.copying.making import identity
from tests.unit.offsets.making import run_of
from tests.unit.slots.wedged import CONTROL, PRODUCER, SICK, SPARE, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots import sending
    from mirrorfleet.slots.outgoing import Pipes
    from mirrorfleet.slots.runner import SlotRunner


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


class Sender:
    """Writes into the slot's positions."""

    producer = PRODUCER

    def __init__(self, world: World) -> None:
        self._world = world

    async def commit_control(self, entries: Sequence[ControlEntry]) -> None:
        assert [each.at for each in entries] == [CONTROL]
        self._world.commits += 1


@pytest.fixture
def diverted(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The target under the spare id, with `world.log` in front of the quarantine record."""

    async def recalled(
        target: object, at: TopicPartition, until: Entry, hint: tuple[int, int] | None
    ) -> Recall:
        del target, at
        assert hint is None
        found = Recall(encode(until))
        for one in (*world.log, until):
            found.take(*encode(one))
        found.window_done()
        return found

    async def bounds(_: object, at: TopicPartition) -> tuple[int, int]:
        assert at == CONTROL
        return 0, 9

    async def admit(runner: SimpleNamespace, sender: object) -> None:
        del sender
        for one in runner.entries.values():
            if taking.healing.may_start(runner, one.identity):  # type: ignore[attr-defined]  # as it does
                runner.slot.admit(one, runner.slot.known[one.identity])

    positions = [partition.committed for partition in world.runner.slot.partitions.values()]
    world.log = [Barrier(owner="me", producer=PRODUCER, time_ms=1), *positions]
    world.wedges.left_behind = frozenset({SICK})
    monkeypatch.setattr(taking, "fence_settled", AsyncMock(return_value=PRODUCER))
    monkeypatch.setattr(diverting, "log_bounds", bounds)
    world.runner.doubts = SimpleNamespace(
        learn=AsyncMock(return_value=None), control_ends={}, reached_anew=lambda nodes: None
    )
    monkeypatch.setattr(taking, "admit_known", admit)
    monkeypatch.setattr(taking, "Sender", lambda *_: Sender(world))
    monkeypatch.setattr(taking, "recall", recalled)
    return world


def copied_more(world: World, records: int = 1) -> None:
    """Each partition has been copied further than its positions say now."""
    for one in world.runner.slot.partitions.values():
        end = TargetOffset(one.committed.next_target + records)
        one.committed = replace(one.committed, next_target=end)


async def test_the_neighbours_go_on_and_the_one_says_why_it_stands(diverted: World) -> None:
    runner = diverted.runner

    await diverting.divert(cast("SlotRunner", runner))

    assert set(runner.slot.partitions) == {identity(1)}
    fault = runner.unstarted[identity(0)].fault
    assert str(fault).startswith("quarantined at source offset 0: east.orders-0 takes no marker")
    held = runner.slot.snapshots.quarantine
    assert (held.owner, held.partitions, held.producer) == ("me", (SICK,), PRODUCER)

    told = runner.unstarted[identity(0)].reported = fault
    runner.taken_at, runner.clock.monotonic = 0.0, lambda: 700.0
    await diverting.divert(cast("SlotRunner", runner))
    assert runner.unstarted[identity(0)].reported is told  # it is not told again
    assert runner.taken_at == 700.0


async def test_a_neighbour_with_a_position_older_than_the_map_goes_on_where_that_ends(
    diverted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_more(diverted)
    diverted.compared = Compared({identity(1)}, {})  # what is left behind waits
    diverted.map.add(identity(1), [run_of(0, 50, 0)])
    monkeypatch.setattr(rebuilding, "first_committed", AsyncMock(return_value=None))
    monkeypatch.setattr(rebuilding, "log_bounds", AsyncMock(return_value=(0, 50)))
    monkeypatch.setattr(succession, "last_told", AsyncMock(return_value={}))

    await diverting.divert(cast("SlotRunner", diverted.runner))

    assert diverted.asked_of == {identity(1)}
    assert diverted.runner.slot.known[identity(1)].next_source == 50


async def test_who_finds_another_owner_before_its_own_record_gives_up(diverted: World) -> None:
    diverted.log.append(Barrier(owner="other", producer=PRODUCER, time_ms=2))

    with pytest.raises(FencedError, match="other took it meanwhile"):
        await diverting.divert(cast("SlotRunner", diverted.runner))

    assert diverted.ended == [SPARE]


class AtOnce:
    """The spare id was taken before; what the coordinators say to its first commit."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.refusal: FencedError | None = None
        runner = world.runner
        runner.spare = SimpleNamespace(handed_over=self._handed_over)
        transactions = world.used(SPARE)
        pipes = SimpleNamespace(
            drop_closed=set, made_ahead=AsyncMock(return_value=None), close=lambda: None
        )
        self._ready: Ready | None = Ready(
            cast("Transactions", transactions), PRODUCER, cast("Pipes", pipes)
        )

    def _handed_over(self) -> Ready | None:
        ready, self._ready = self._ready, None
        return ready

    def sender(self, *_: object) -> Sender:
        made = Sender(self.world)
        if self.refusal is not None:
            vars(made)["commit_control"] = AsyncMock(side_effect=self.refusal)
        return made


@pytest.fixture
def at_once(diverted: World, monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    made = AtOnce(diverted)
    monkeypatch.setattr(diverting, "Sender", made.sender)
    return made


async def test_with_the_id_that_was_taken_before_nobody_is_fenced_now(at_once: AtOnce) -> None:
    await diverting.divert(cast("SlotRunner", at_once.world.runner))

    assert set(at_once.world.runner.slot.partitions) == {identity(1)}
    assert at_once.world.commits == 1
    cast("AsyncMock", vars(taking)["fence_settled"]).assert_not_called()


async def test_who_finds_it_taken_by_another_takes_it_anew(at_once: AtOnce) -> None:
    """Its coordinator may have forgotten it: that says nothing of who owns the slot."""
    at_once.refusal = FencedError("INVALID_PRODUCER_ID_MAPPING")
    runner = cast("SlotRunner", at_once.world.runner)

    with pytest.raises(RetakeError, match="taken anew"):
        await diverting.divert(runner)
    assert at_once.world.ended == [SPARE]

    await diverting.divert(runner)
    cast("AsyncMock", vars(taking)["fence_settled"]).assert_awaited_once()


async def test_another_owner_before_our_record_is_no_reason_to_take_it_anew(
    at_once: AtOnce,
) -> None:
    at_once.world.log.append(Barrier(owner="other", producer=PRODUCER, time_ms=2))

    with pytest.raises(FencedError, match="other took it meanwhile"):
        await diverting.divert(cast("SlotRunner", at_once.world.runner))


async def test_an_operators_fence_holds_for_the_spare_id_too(diverted: World) -> None:
    diverted.log.append(Fence(who="eve", reason="wrong data", time_ms=2))

    with pytest.raises(taking.StoppedError, match="fenced by eve"):
        await diverting.divert(cast("SlotRunner", diverted.runner))

    assert diverted.ended == [SPARE]


async def test_what_the_spare_id_has_open_in_the_positions_ends_before_they_are_read(
    diverted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, asked = [True], list[object]()
    diverted.wedges.left_behind = frozenset()

    async def is_open(_: object, found: object) -> bool:
        asked.append(found)
        return opened.pop()

    async def reading(*args: object) -> Recall:
        """Nothing behind what is open can be read."""
        await fenced.wait()
        found: Recall = await read(*args)
        return found

    async def fence(*_: object) -> ProducerIdentity:
        fenced.set()
        return PRODUCER

    read, fenced = vars(taking)["recall"], asyncio.Event()
    monkeypatch.setattr(taking, "fence_settled", fence)
    monkeypatch.setattr(endings, "is_open", is_open)
    monkeypatch.setattr(taking, "recall", reading)
    first = Barrier(owner="me", producer=PRODUCER, time_ms=9)
    runner = cast("SlotRunner", diverted.runner)
    sender = cast("sending.Sender", Sender(diverted))

    async with asyncio.timeout(5):
        found, barrier = await taking._recalled(runner, sender, first, None)

    assert (asked, diverted.ids, diverted.commits) == ([None], [SPARE], 2)
    assert (barrier.time_ms, set(found.positions())) == (10, {identity(0), identity(1)})


@pytest.mark.parametrize(
    ("why", "asked"),
    [
        ("nothing is lost", set()),
        ("positions are lost", {identity(1)}),
        ("segments are lost", {identity(1)}),
        ("nobody tells where segments end", {identity(1)}),
        ("the last commit was not answered", {identity(1)}),
    ],
)
async def test_the_map_is_asked_unless_all_is_as_we_have_committed_it(
    diverted: World, monkeypatch: pytest.MonkeyPatch, why: str, asked: set[PartitionIdentity]
) -> None:
    """What is left behind may have lost its own: it is looked at when it goes on."""
    copied_more(diverted, int(why == "positions are lost"))
    end = 10 if why == "segments are lost" else 9
    diverted.runner.doubts.control_ends = {CONTROL: end}
    diverted.wedges.is_undecided = why == "the last commit was not answered"
    if why == "nobody tells where segments end":
        gone = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "west")
        monkeypatch.setattr(diverting, "log_bounds", AsyncMock(side_effect=gone))

    await diverting.divert(cast("SlotRunner", diverted.runner))

    assert diverted.asked_of == asked
    assert set(diverted.runner.slot.partitions) == {identity(1)}
    assert not diverted.wedges.is_undecided
