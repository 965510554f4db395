"""A fleet that is watched: when it was read last, and what of its offset map is forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import ClusterAlias, FleetName, SourceOffset, TargetOffset
from mirrorfleet.mapping import fleet_watch
from mirrorfleet.mapping.fleet_watch import ClusterWatch, FleetWatch
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.packing import Floor
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.overview import STALE_MS
from mirrorfleet.runtime.clock import SystemClock
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition

WEST, EAST, NORTH = (ClusterAlias(name) for name in ("west", "east", "north"))


@dataclass
class Hand:
    """A clock that a test sets."""

    time_ms: int = 1_000_000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000


@dataclass
class Tail:
    """A topic that is followed."""

    poll: Callable[..., Awaitable[list[object]]]
    cannot: Callable[[], tuple[int, ...]]
    caught_up: bool = True

    @property
    def unheard(self) -> tuple[int, ...]:
        return self.cannot()

    def close(self) -> None:
        pass


@dataclass
class Broker:
    """Answers polls of all topics while it `answers`, and hangs until it is `gone`."""

    answers: bool = True
    missing: str = ".reports"
    """How the name of a topic ends that is not there."""
    unheard: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Partitions of a topic that it does not serve."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    polls: Counter[str] = field(default_factory=Counter)
    since: dict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))

    async def poll(self, topic: str) -> list[object]:
        if self.missing and topic.endswith(self.missing):
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        await asyncio.sleep(0)
        if not self.answers:
            await self.gone.wait()
            raise DeadlineError(f"{topic}: no answer")
        self.polls[topic] += 1
        return []

    def tail(self, _: object, topic: str, clock: object, *, since_ms: int | None) -> object:
        self.since[topic].append(since_ms)

        async def poll(**_: float) -> list[object]:
            return await self.poll(topic)

        return Tail(poll, lambda: self.unheard.get(topic, ()))

    async def answered(self) -> None:
        """Every topic twice from now on: what was read before is marked as read then."""
        before = Counter(self.polls)
        await until(
            lambda: (
                len(self.polls) == 4
                and all(self.polls[one] > before[one] + 1 for one in self.polls)
            ),
            deadline_s=5,
            what="another answer of each topic",
        )


def watching(cluster: Cluster, clock: Clock, said: list[str]) -> FleetWatch:
    """The fleet of a cluster, and what it says of its trouble."""
    return FleetWatch(
        ClusterWatch(WEST, cluster, clock),
        FleetName("west"),
        clock,
        said.append,
        sources={},
        request_s=60,
        history_s=1,
    )


async def test_a_fleet_is_as_of_its_last_read_and_in_trouble_before_the_deadline_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, broker, said = Hand(), Broker(), list[str]()
    monkeypatch.setattr(fleet_watch, "TopicTail", broker.tail)
    cluster = cast("Cluster", SimpleNamespace())
    watch = watching(cluster, clock, said)
    assert watch.fleet().read_ms is None

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._again(watch._follow, cluster, watch._say))
        await broker.answered()
        clock.time_ms += 20_000
        await broker.answered()
        read = watch.fleet()
        broker.answers = False
        clock.time_ms += 10_000
        still = watch.fleet()
        clock.time_ms += 1
        deaf = watch.fleet()
        broker.gone.set()
        await until(lambda: bool(said[-1]), deadline_s=5, what="the word of trouble")
        clock.time_ms += 3_600_000
        lost = watch.fleet()
        task.cancel()

    assert (read.trouble, read.read_ms) == ("", 1_020_000)
    assert (still.trouble, still.read_ms) == ("", 1_020_000)
    assert "the topics of fleet 'west' are not answered for" in deaf.trouble
    assert "no answer" in lost.trouble
    assert {(one.trouble_since_ms, one.read_ms) for one in (deaf, lost)} == {(1_020_000,) * 2}


async def test_slots_whose_progress_is_not_read_here_are_named_and_the_fleet_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(
        unheard={"__mirrorfleet.west.progress": (1,), "__mirrorfleet.west.samples": (0,)}
    )
    monkeypatch.setattr(fleet_watch, "TopicTail", broker.tail)
    cluster = cast("Cluster", SimpleNamespace())
    clock = Hand()
    watch = watching(cluster, clock, [])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._again(watch._follow, cluster, watch._say))
        await broker.answered()
        found = watch.fleet()
        broker.unheard.clear()
        await broker.answered()
        clock.time_ms += STALE_MS
        await broker.answered()
        readable = watch.fleet()
        clock.time_ms += 1
        await broker.answered()
        quiet = watch.fleet()
        task.cancel()

    assert (found.trouble, found.is_read, set(found.unheard)) == ("", True, {1})
    assert set(readable.unheard) == {1}  # its worker had no time to speak yet
    assert set(quiet.unheard) == set()


def test_a_slot_of_which_something_came_is_heard() -> None:
    state = fleet_watch._State()

    state.hear({0}, {1, 2}, 1_000)
    state.hear({1}, {2}, 2_000)

    assert state.unheard(2_000) == {2}


@pytest.mark.parametrize("was_read", [True, False])
async def test_a_topic_that_is_missing_and_may_be_is_followed_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, *, was_read: bool
) -> None:
    broker, said = Broker(missing="" if was_read else ".reports"), list[str]()
    reports = "__mirrorfleet.west.reports"
    monkeypatch.setattr(fleet_watch, "TopicTail", broker.tail)
    monkeypatch.setattr(fleet_watch, "_MISSING_S", 0.0)
    cluster = cast("Cluster", SimpleNamespace())
    watch = watching(cluster, SystemClock(), said)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._again(watch._follow, cluster, watch._say))
        if was_read:
            await until(lambda: broker.polls[reports] > 1, deadline_s=5, what="reports")
            broker.missing = ".reports"
        await until(lambda: len(broker.since[reports]) > 2, deadline_s=5, what="a second look")
        broker.missing, before = "", broker.polls[reports]
        await until(lambda: broker.polls[reports] > before + 1, deadline_s=5, what="reports")
        task.cancel()

    assert set(said) == {""}  # the others were read on
    assert {since is None for since in broker.since[reports][1:]} == {not was_read}


async def test_a_map_that_was_whole_and_loses_a_slot_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = SimpleNamespace(
        index=OffsetIndex(),
        behind=set[int](),
        leaderless=dict[int, Exception](),
        slots=2,
        want=lambda _: None,
        step=lambda: asyncio.sleep(0),
        close=lambda: None,
    )
    monkeypatch.setattr(fleet_watch, "MapFollower", lambda *_: follower)
    monkeypatch.setattr(
        fleet_watch, "KafkaMapStore", lambda *_: SimpleNamespace(close=lambda: None)
    )
    cluster = cast("Cluster", SimpleNamespace())
    watch = watching(cluster, SystemClock(), [])
    watch._is_read = True
    for each in (entry(0), entry(1)):
        watch._shown.view.apply(each)
    watch.want_map()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._follow_map(cluster))
        await until(lambda: not watch.map_words, deadline_s=5, what="a whole map")
        follower.leaderless[1] = DeadlineError("broker 2 is unreachable")
        await until(lambda: bool(watch.map_words), deadline_s=5, what="the word of a slot")
        words = watch.map_words
        follower.leaderless.clear()
        await until(lambda: not watch.map_words, deadline_s=5, what="a whole map again")
        task.cancel()

    slots = len(watch._shown.view.slots)
    assert words == f"1 of {slots} slots are not followed now: broker 2 is unreachable"


async def test_what_both_logs_have_lost_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []

    async def look(
        _: LogFloors, sources: dict[str, object], entries: list[CatalogPartition]
    ) -> dict[PartitionIdentity, Floor]:
        asked.append(set(sources))
        low = Floor(SourceOffset(10**6), TargetOffset(10**6))
        return {each.identity: low for each in entries}

    monkeypatch.setattr(LogFloors, "look", look)
    monkeypatch.setattr(fleet_watch, "_FORGET_S", 0.0)
    cluster = cast("Cluster", SimpleNamespace())
    clusters = {alias: ClusterWatch(alias, cluster, SystemClock()) for alias in (WEST, EAST)}
    clusters[NORTH] = ClusterWatch(NORTH, None, SystemClock(), "no such file")
    watch = FleetWatch(
        clusters[WEST],
        FleetName("west"),
        SystemClock(),
        lambda _: None,
        sources=clusters,
        request_s=1,
        history_s=1,
    )
    for each in (entry(0), entry(1, state=CatalogState.REMOVED)):
        watch._shown.view.apply(each)
        watch.index.add(each.identity, [run_of(0, 5, 0), run_of(5, 9, 6)])

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch._forget(cluster))
        await until(lambda: watch.index.pieces == 2, deadline_s=5, what="shorter maps")
        task.cancel()

    assert asked[0] == {"west", "east"}
