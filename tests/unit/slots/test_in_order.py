"""While what came from far away is put into the slot others have a turn: what they do counts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.stripes import Piece
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.slots import in_order
from mirrorfleet.slots.arrivals import deliver
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.waits import TURN_S
from tests.unit.copying.making import BIG, fetched, identity
from tests.unit.slots.striped import REPLICA, World, turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirrorfleet.copying.partition import CopyPartition


class Slow:
    """Each part takes longer than a turn; the clock stands still otherwise."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.now = world, 100.0
        self.ticks, self.wakes = 0, 0
        self.seen: list[tuple[int, int]] = []
        """The ticks and the wakes before each part."""
        self.tasks: list[asyncio.Task[object] | None] = []
        """By whom each was delivered."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens in the first pause."""
        world.runner.clock.monotonic = lambda: self.now
        world.runner.wake = self.wake
        monkeypatch.setattr(in_order, "deliver", self.deliver)

    def wake(self) -> None:
        self.wakes += 1

    def deliver(self, *given: object) -> None:
        self.seen.append((self.ticks, self.wakes))
        self.tasks.append(asyncio.current_task())
        deliver(*given)  # type: ignore[arg-type]  # as it was called
        self.now += 2 * TURN_S
        if len(self.seen) == 1:
            asyncio.get_running_loop().call_soon(self.meanwhile)

    async def tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)

    async def fetch(self, piece: Piece) -> None:
        """The piece in turn comes, while another task ticks."""
        ticking = asyncio.create_task(self.tick())
        try:
            await self.world.fetch_piece(piece)
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(World(monkeypatch), monkeypatch)


async def waiting_behind_the_first(slow: Slow, count: int = 4) -> list[Piece]:
    """So many pieces, of which all but the first one came."""
    pieces = slow.world.pieces(count, 1)
    for piece in pieces[1:]:
        await slow.world.fetch_piece(piece)
    return pieces


def offsets(partition: CopyPartition) -> list[int]:
    return [each.batch.first for each in partition.queue]


async def test_others_have_a_turn_between_parts_that_take_long_and_what_came_may_be_sent(
    slow: Slow,
) -> None:
    first, *_ = await waiting_behind_the_first(slow)
    before = slow.wakes
    await slow.fetch(first)

    ticks = [ticks for ticks, _ in slow.seen]
    assert len(set(ticks)) == 4
    assert [wakes - before for _, wakes in slow.seen] == [0, 1, 2, 3]
    assert offsets(slow.world.partition) == [0, 1, 2, 3]


async def test_what_comes_in_a_pause_is_delivered_in_its_turn_by_who_began(slow: Slow) -> None:
    world, others = slow.world, set[asyncio.Task[None]]()
    first, second, third, fourth = world.pieces(4, 1)
    for piece in (second, fourth):
        await world.fetch_piece(piece)
    frame = fetched((2, [BIG]))
    slow.meanwhile = lambda: others.add(asyncio.create_task(world.arrive(third, frame)))
    await slow.fetch(first)

    assert [task.done() for task in others] == [True]
    assert offsets(world.partition) == [0, 1, 2, 3]
    assert set(slow.tasks) == {asyncio.current_task()}


def rewound(world: World) -> None:
    """By an abort, after a commit of what was delivered: what follows seems to be in order."""
    partition = world.partition
    partition.committed = replace(partition.committed, next_source=SourceOffset(1))
    world.slot.rewind()


def dismissed(world: World) -> None:
    world.slot.dismiss(identity(0))


def stopped(world: World) -> None:
    world.slot.fault(world.partition, Fault(FaultReason.SOURCE_MISSING, SourceOffset(1), ""), 0.0)


def asked_anew(world: World) -> None:
    world.partition.ask_anew()


def led_elsewhere(world: World) -> None:
    world.runner.sources.of = lambda *_: LeaderAt(REPLICA, 1)


@pytest.mark.parametrize("change", [rewound, dismissed, stopped, asked_anew, led_elsewhere])
async def test_a_partition_that_is_not_ours_to_go_on_with_after_a_pause_gets_nothing_more(
    slow: Slow, change: Callable[[World], None]
) -> None:
    world = slow.world
    pieces = await waiting_behind_the_first(slow)
    slow.meanwhile = lambda: change(world)
    await slow.fetch(pieces[0])

    assert len(slow.seen) == 1
    assert [each.dropped for each in pieces[1:]] == [True] * 3
    for queued in world.partition.queue:
        queued.lease.done()
    assert (world.budget.used, world.budget.beside) == (0, 0)


async def test_pieces_that_are_made_in_a_pause_are_delivered_when_they_come(slow: Slow) -> None:
    world, anew = slow.world, list[Piece | None]()
    pieces = await waiting_behind_the_first(slow)

    def begin_anew() -> None:
        rewound(world)
        anew.append(world.lane._next())

    slow.meanwhile = begin_anew
    await slow.fetch(pieces[0])
    (piece,) = anew
    assert piece is not None
    assert (piece.first, piece.stale, offsets(world.partition)) == (1, False, [])
    await slow.fetch(piece)

    assert offsets(world.partition)[:1] == [1]


async def test_a_lane_that_ends_in_a_pause_gives_all_memory_back(slow: Slow) -> None:
    world = slow.world
    first, *_ = await waiting_behind_the_first(slow)
    fetching = asyncio.create_task(world.fetch_piece(first))
    slow.meanwhile = fetching.cancel
    await turns()
    assert (fetching.cancelled(), offsets(world.partition)) == (True, [0])

    world.lane._stripes.keep(lambda _: False)  # as a lane does at its end
    world.slot.rewind()
    assert (world.budget.used, world.budget.beside) == (0, 0)
