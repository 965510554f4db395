"""A fetch lane with a source made of lists: what of an answer goes into the slot."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.budget import Weight
from mirrorfleet.copying.cadence import Supply, supply_of
from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import SourceEnds, start_position
from mirrorfleet.copying.withheld import FOLLOWER
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchPoint
from mirrorfleet.slots import fetching
from mirrorfleet.slots.arrivals import deliver
from mirrorfleet.slots.fetching import Lanes
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.waits import TURN_S
from tests.faultkit.waiting import until
from tests.unit.copying.making import BIG, SOURCE_TOPIC, entry, fetched, identity
from tests.unit.slots.stubs import Target, sender_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.runtime.metrics import Counter
    from mirrorfleet.slots.runner import SlotRunner


class Source:
    """One broker: an answer waits until it is let go."""

    def __init__(self) -> None:
        self.asked: list[dict[int, int]] = []
        """The offset of each partition, request by request."""
        self.held: deque[asyncio.Future[None]] = deque()
        self.points: list[FetchPoint] = []
        self.diverges: set[int] = set()
        """Partitions whose history is another one."""
        self.replica = -1
        """Whom it names to those that tell their rack; we cannot connect to that one."""
        self.rack = ""
        self.racks: list[str] = []
        """What it was told, request by request."""
        self.is_tiered = False
        """Whether an answer has records of one partition only, in turn (before KAFKA-14915 a broker
        reads no more of a remote tier for one fetch)."""
        self._wanted: dict[int, int] = {}

    def want(self, point: FetchPoint) -> None:
        self.points.append(point)
        self._wanted[point.partition] = point.offset

    def forget(self, topic_id: object, partition: int) -> None:
        del topic_id
        self._wanted.pop(partition)

    async def fetch(self, **_: object) -> Fetched:
        asked = dict(self._wanted)
        self.asked.append(asked)
        self.racks.append(self.rack)
        replica = self.replica if self.rack else -1
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held.append(answer)
        await answer
        frame, parts = bytearray(), []
        turn = sorted(asked)[len(self.asked) % len(asked)] if self.is_tiered else None
        for number, offset in asked.items():
            start = len(frame)
            without = number in self.diverges or replica >= 0 or turn not in {None, number}
            frame += b"" if without else fetched((offset, [BIG]))
            parts.append(
                FetchedPartition(
                    "orders",
                    SOURCE_TOPIC,
                    number,
                    ErrorCode.NONE,
                    high_watermark=100,
                    last_stable_offset=100,
                    log_start_offset=0,
                    diverging_epoch=(3, 1) if number in self.diverges else None,
                    current_leader=None,
                    preferred_replica=replica,
                    aborted=[],
                    start=start,
                    end=len(frame),
                )
            )
        return Fetched(frame, parts, 0)

    async def answered(self) -> None:
        """The request that is held has its answer, and the next one was sent."""
        await until(lambda: self.held, deadline_s=5, what="a request")
        self.held.popleft().set_result(None)
        await until(lambda: self.held, deadline_s=5, what="the next request")


def runner_of(*entries: CatalogPartition) -> SlotRunner:
    _, runner = sender_of(Target(), *entries)
    return cast("SlotRunner", runner)


async def soon(at_most_s: float) -> None:
    del at_most_s
    await asyncio.sleep(0)


@asynccontextmanager
async def fetching_from(
    source: Source, runner: SlotRunner, patch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """The lanes of a slot, after their first answer."""

    async def connect(node: int, *, purpose: str) -> object:
        if node == source.replica:
            raise DeadlineError(f"no connection for {purpose}")
        return SimpleNamespace(rtt_s=0.0, close=lambda: None)

    vars(runner).update(
        source=SimpleNamespace(connect=connect, settings=SimpleNamespace(rack="a")),
        budget=runner.slot._budget,
        sources=runner.targets,
        reach=SimpleNamespace(found=lambda node: None, lost=lambda node: None),
        dice=SimpleNamespace(uniform=lambda low, high: low),
        source_trouble=lambda error: None,
        reroute=lambda: None,
        routes_changed=soon,
        room=soon,
    )
    runner.meters.fetched = cast("Counter", SimpleNamespace(value=0))
    patch.setattr(fetching, "FetchLane", lambda *_, **__: source)
    async with asyncio.TaskGroup() as group:
        lanes = group.create_task(Lanes(runner, group).keep())
        await source.answered()
        yield
        lanes.cancel()
        with suppress(asyncio.CancelledError):
            await lanes
        source.held.popleft().cancel()


async def test_of_an_answer_only_what_was_rewound_meanwhile_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(entry(0), entry(1))
    held, other = (runner.slot.partitions[identity(number)] for number in range(2))
    async with fetching_from(source, runner, monkeypatch):
        assert source.asked[1] == {0: 1, 1: 1}
        runner.slot.hold_back(held, 0.0)
        held.source = SourceEnds()
        await source.answered()
        assert source.asked[2] == {0: 0, 1: 2}
        assert [each.batch.first for each in held.queue] == []
        assert held.source.last_stable == 100  # a session tells it once
        assert [each.batch.first for each in other.queue] == [SourceOffset(0), SourceOffset(1)]


async def test_who_was_asked_is_remembered_until_its_answer_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what a follower hands out nothing is sure, whoever is fetched from by then."""
    source, told = Source(), list[int | None]()
    runner = runner_of(entry(0))
    partition = runner.slot.partitions[identity(0)]
    monkeypatch.setattr(fetching, "deliver", lambda *given: told.append(given[3].epoch))
    partition.replica, partition.replica_until = 1, inf
    async with fetching_from(source, runner, monkeypatch):
        partition.replica = None
        await source.answered()
        await source.answered()

    assert told == [FOLLOWER, FOLLOWER, 0]


async def test_what_an_earlier_leader_said_is_asked_again_of_the_one_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the epoch of what is there already it shows whether their histories are one."""
    source = Source()
    runner = runner_of(entry(0), entry(1))
    first, other = (runner.slot.partitions[identity(number)] for number in range(2))
    async with fetching_from(source, runner, monkeypatch):
        vars(runner.targets)["of"] = lambda _, number: LeaderAt(1, 1 - number)
        await source.answered()
        assert source.asked[2] == {0: 1, 1: 2}
        assert [each.batch.first for each in first.queue] == [SourceOffset(0)]
        vars(runner.targets)["of"] = lambda _, number: None if number else LeaderAt(1, 1)
        await source.answered()  # who leads the other one is not known now: nobody else was seen

    assert [each.batch.first for each in first.queue] == [SourceOffset(0), SourceOffset(1)]
    assert [each.batch.first for each in other.queue] == [SourceOffset(n) for n in range(3)]
    asked = [each.leader_epoch for each in source.points if each.partition == 0]
    assert asked[:2] == [0, 0]
    assert set(asked[2:]) == {1}


async def test_the_next_incarnation_of_a_partition_takes_its_place_in_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(entry(0), entry(1))
    async with fetching_from(source, runner, monkeypatch):
        runner.slot.dismiss(identity(0))
        again = replace(identity(0), incarnation=1)
        start = start_position(again, SourceOffset(40), 1)
        runner.slot.admit(entry(identity=again), start)
        await source.answered()
        assert source.asked[2] == {0: 40, 1: 2}


async def test_a_fetch_names_the_epoch_of_the_batch_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(entry(0))
    async with fetching_from(source, runner, monkeypatch):
        points = [(each.offset, each.last_fetched_epoch) for each in source.points]
        assert points == [(0, -1), (1, 3)]
        assert runner.slot.partitions[identity(0)].walked_epoch == 3


async def test_where_a_fetch_brings_one_tiered_partition_all_are_asked_for_until_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    source.is_tiered = True
    runner = runner_of(*map(entry, range(3)))
    async with fetching_from(source, runner, monkeypatch):
        partitions = [runner.slot.partitions[identity(number)] for number in range(3)]
        assert [len(each.queue) for each in partitions] == [0, 1, 0]
        assert not any(each.at_end for each in partitions)  # the answers without any were no end
        assert source.asked[1] == {0: 0, 1: 1, 2: 0}
        await source.answered()
        await source.answered()
        assert [len(each.queue) for each in partitions] == [1, 1, 1]
        assert supply_of(partitions) is Supply.BACKLOG


async def test_a_partition_whose_history_is_another_one_is_examined_and_not_fetched_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(entry(0), entry(1))
    parted = runner.slot.partitions[identity(0)]
    examined: list[object] = []
    vars(runner).update(examine=examined.append, link="east->west")
    async with fetching_from(source, runner, monkeypatch):
        source.diverges.add(0)
        await source.answered()
        assert examined == [parted]
        assert [each.batch.first for each in parted.queue] == [0]
        assert source.asked[2] == {1: 2}


async def test_a_replica_that_only_we_cannot_reach_leaves_its_partitions_to_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    source.replica = 2
    runner = runner_of(entry(0))
    partition = runner.slot.partitions[identity(0)]
    async with fetching_from(source, runner, monkeypatch):
        assert (source.racks, list(partition.queue)) == (["a", ""], [])  # and it has named 2
        await source.answered()
        assert [each.batch.first for each in partition.queue] == [SourceOffset(0)]
        assert (source.racks, partition.replica) == (["a", "", ""], None)

        partition.leader_until = 0.0  # a while later
        await source.answered()
        assert source.racks == ["a", "", "", "a"]


class Slow:
    """Each partition's records take longer than a turn to put into the slot."""

    def __init__(self, runner: SlotRunner, patch: pytest.MonkeyPatch) -> None:
        self.ticks = 0
        self.seen: list[int] = []
        """The ticks before each partition."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens in the first pause."""
        self._late_s = 0.0
        loop = asyncio.get_running_loop()
        clock = SimpleNamespace(monotonic=lambda: loop.time() + self._late_s)
        vars(runner).update(clock=clock)
        patch.setattr(fetching, "deliver", self.deliver)

    def deliver(self, *given: object) -> None:
        self.seen.append(self.ticks)
        deliver(*given)  # type: ignore[arg-type]  # as it was called
        self._late_s += 2 * TURN_S
        if len(self.seen) == 1:
            asyncio.get_running_loop().call_soon(self.meanwhile)

    async def tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


async def test_others_have_a_turn_between_partitions_of_an_answer_that_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(*map(entry, range(3)))
    async with fetching_from(source, runner, monkeypatch):
        slow = Slow(runner, monkeypatch)
        ticking = asyncio.create_task(slow.tick())
        await source.answered()
        ticking.cancel()
        assert len(set(slow.seen)) == len(slow.seen) == 3
        partitions = runner.slot.partitions.values()
        assert [len(each.queue) for each in partitions] == [2, 2, 2]


def rewound(runner: SlotRunner) -> None:
    runner.slot.hold_back(runner.slot.partitions[identity(1)], 0.0)


def dismissed(runner: SlotRunner) -> None:
    runner.slot.dismiss(identity(1))


def stopped(runner: SlotRunner) -> None:
    fault = Fault(FaultReason.SOURCE_MISSING, SourceOffset(1), "gone")
    runner.slot.fault(runner.slot.partitions[identity(1)], fault, 0.0)


@pytest.mark.parametrize(
    ("change", "queued"), [(rewound, []), (dismissed, []), (stopped, [SourceOffset(0)])]
)
async def test_what_is_rewound_dismissed_or_stopped_in_a_pause_gets_nothing_of_the_old_answer(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[SlotRunner], None],
    queued: list[SourceOffset],
) -> None:
    source = Source()
    runner = runner_of(*map(entry, range(3)))
    before, changed, after = (runner.slot.partitions[identity(number)] for number in range(3))
    async with fetching_from(source, runner, monkeypatch):
        slow = Slow(runner, monkeypatch)
        slow.meanwhile = lambda: change(runner)
        await source.answered()
        assert [each.batch.first for each in changed.queue] == queued
        assert [len(each.queue) for each in (before, after)] == [2, 2]
        assert (source.asked[2][0], source.asked[2][2]) == (2, 2)


async def test_what_a_sender_puts_together_in_a_pause_is_not_what_an_answer_comes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    runner = runner_of(*map(entry, range(2)))
    first = runner.slot.partitions[identity(0)]
    weights: list[float] = []
    real = Weight.weighed

    def weighed(weight: Weight, got: int, took: int) -> None:
        real(weight, got, took)
        weights.append(weight.by)

    async with fetching_from(source, runner, monkeypatch):
        monkeypatch.setattr(Weight, "weighed", weighed)
        slow = Slow(runner, monkeypatch)
        slow.meanwhile = lambda: first.queue[1].lease.another(1 << 20, 0).done()
        await source.answered()
        assert [1.0 < each < 1.1 for each in weights] == [True]
