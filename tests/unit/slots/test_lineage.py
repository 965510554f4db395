"""A leader that lost what was copied is found out also where its log was filled up again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MethodType, SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.kafka.offsets import EpochEnd, ListedOffset
from mirrorfleet.slots import lineage, settling, target_loss
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import ALONE, fetched, give, identity
from tests.unit.slots.settled import COPY, OTHER, World

LAST = 99
"""The offset of the record that was copied last."""


@dataclass
class Target:
    """What its leaders say of a log that 100 records were copied to."""

    ends: dict[TopicPartition, EpochEnd | BrokerError] = field(default_factory=dict)
    """Where the epoch that is asked for ends; behind all that was copied where nothing is said."""
    start: int = 0
    base: int = 90
    """Where the batch begins in which, or behind which, the last record is to be."""
    end: int = 100
    is_control: bool = False
    aborted: bool = False
    silent: bool = False
    away: MirrorfleetError | None = None
    ends_away: MirrorfleetError | None = None
    """To who asks for the ends of epochs, and of logs."""
    log_end: int = 120
    on_log_end: Callable[[], None] = lambda: None
    asked: list[dict[TopicPartition, int]] = field(default_factory=list)
    reads: int = 0

    async def epoch_ends(
        self, _: object, wanted: Mapping[TopicPartition, int], *, deadline_s: float
    ) -> dict[TopicPartition, EpochEnd | BrokerError]:
        assert deadline_s == lineage.ASK_S
        if self.away is not None:
            raise self.away
        self.asked.append(dict(wanted))
        return {at: self.ends.get(at, EpochEnd(epoch, 120)) for at, epoch in wanted.items()}

    async def bounds(self, *_: object) -> tuple[int, int]:
        self.reads += 1
        if self.silent:
            raise DeadlineError("gave up")
        return self.start, 120

    async def batches(self, *where: object) -> AsyncGenerator[SimpleNamespace, None]:
        assert where[2:] == (0, LAST, LAST + 1)
        header = SimpleNamespace(
            base_offset=self.base, next_offset=self.end, is_control=self.is_control
        )
        if self.end > 0:
            yield SimpleNamespace(header=header, aborted=self.aborted)

    async def log_ends(
        self, _: object, wanted: Mapping[TopicPartition, object], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        self.on_log_end()
        if self.ends_away is not None:
            raise self.ends_away
        return {at: ListedOffset(self.log_end, -1, 0) for at in wanted}

    async def topic(self, name: str, *, refresh: bool) -> str:
        assert refresh
        return name


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch, target: Target) -> World:
    """Another leader epoch has begun since the last look."""
    monkeypatch.setattr(settling, "LOOK_S", 0.0)
    made = World(monkeypatch)
    monkeypatch.setattr(lineage, "offset_for_leader_epoch", target.epoch_ends)
    monkeypatch.setattr(lineage, "log_bounds", target.bounds)
    monkeypatch.setattr(lineage, "stored_batches", target.batches)
    monkeypatch.setattr(target_loss, "list_offsets", target.log_ends)
    vars(vars(made.runner)["target"]).update(topic=target.topic)
    vars(made.runner.targets).update(renew=AsyncMock(), lacks=lambda *_: False)
    for partition in made.runner.slot.partitions.values():
        partition.committed = replace(partition.committed, records=100)
    runner = {"stop_partition": MethodType(SlotRunner.stop_partition, made.runner)}
    vars(made.runner).update(runner, report_fault=lambda _: None)
    made.renewed()
    assert made.doubts.doubted == set()
    made.epoch = 4
    made.renewed()
    return made


def fault_of(world: World) -> str:
    return str(world.runner.slot.partitions[identity(0)].fault or "")


def produced(world: World) -> set[str]:
    """Requests with data."""
    return {one for one in world.log.seen if one.startswith("produce east.")}


async def settled(world: World) -> set[TopicPartition]:
    """What is in doubt after a look."""
    await world.doubts.settle(world.sender)
    return set(world.doubts.doubted)


@pytest.mark.parametrize("error", [DeadlineError("gave up"), AuthenticationError("refused")])
async def test_leaders_that_do_not_answer_or_let_us_in_leave_their_partitions_in_doubt(
    world: World, target: Target, error: MirrorfleetError
) -> None:
    target.away = error
    assert {COPY, OTHER} <= await settled(world)

    target.away = None
    target.ends[COPY] = CUT
    target.ends_away = error  # then the batch that was copied last tells
    assert await settled(world) == set()
    assert (fault_of(world), target.reads) == ("", 1)


CUT = EpochEnd(3, 99)


@pytest.mark.parametrize(
    "found",
    [
        {"base": 99, "end": 100, "is_control": True},
        {"base": 98, "end": 104, "aborted": True},
        {"base": 98, "end": 104},
    ],
    ids=["a marker", "a batch that was aborted", "another batch"],
)
async def test_what_was_filled_up_again_is_noticed_before_anything_is_written(
    world: World, target: Target, found: dict[str, int]
) -> None:
    target.ends[COPY] = CUT
    vars(target).update(found)
    partition = world.runner.slot.partitions[identity(0)]
    give(world.runner.slot, partition, fetched((0, [ALONE])), end=1)

    assert COPY in await settled(world)

    assert target.asked == [{COPY: 0, OTHER: 0}]  # the epoch in which it was copied
    assert not partition.queue  # nothing waits for it to be sent
    assert fault_of(world).startswith(FaultReason.TARGET_TRUNCATED)
    assert "from 99 on than that of which 100 were copied" in fault_of(world)
    assert await settled(world) == set()  # what stands still is in nobody's way
    assert await world.copied(1)
    assert produced(world) == {"produce east.orders-1"}


async def test_what_ends_below_the_copy_is_told_at_once_and_nothing_of_it_is_read(
    world: World, target: Target
) -> None:
    target.ends[COPY] = EpochEnd(3, 97)
    target.log_end = 97

    assert COPY in await settled(world)

    assert "east.orders-0 ends at 97, but was copied up to 100" in fault_of(world)
    assert target.reads == 0
    assert await settled(world) == set()


async def test_another_fault_does_not_hide_what_was_lost(world: World, target: Target) -> None:
    """A lane finds it while the leaders are asked."""
    target.ends[COPY], target.base, target.end = CUT, 98, 104
    partition = world.runner.slot.partitions[identity(0)]
    ahead = Fault(FaultReason.KEY_MISSING, SourceOffset(500), "a record without a key")
    target.on_log_end = lambda: world.runner.slot.fault(partition, ahead, 0.0)

    await settled(world)

    assert fault_of(world).startswith(FaultReason.TARGET_TRUNCATED)


@pytest.mark.parametrize("log_end", [90, 120])
async def test_what_stands_for_a_while_is_asked_for_what_it_lost_as_others_are(
    world: World, target: Target, log_end: int
) -> None:
    """When it goes on nobody would ask again."""
    target.ends[COPY], target.base, target.end, target.log_end = CUT, 98, 104, log_end
    target.silent = log_end < LAST  # no batch is there to look at
    partition = world.runner.slot.partitions[identity(0)]
    denied = Fault(FaultReason.SOURCE_DENIED, SourceOffset(500), "may not READ")
    world.runner.slot.fault(partition, denied, 0.0)

    await settled(world)

    assert fault_of(world).startswith(FaultReason.TARGET_TRUNCATED)
    assert COPY not in await settled(world)  # it is known: nobody is asked again


async def test_who_takes_a_slot_again_remembers_its_leaders_at_once(
    world: World, target: Target
) -> None:
    """The table of leaders may be renewed only seconds later, and tell of another one then."""
    assert COPY in world.doubts.doubted
    world.doubts.begin()
    assert COPY in world.doubts.doubted
    for at in (COPY, OTHER):
        world.doubts.doubt(at)
    assert COPY in world.doubts.doubted
    world.epoch = 5
    world.renewed()
    await settled(world)

    assert target.asked == [{COPY: 4, OTHER: 4}]


async def test_what_leaders_had_before_another_owner_says_nothing(
    world: World, target: Target
) -> None:
    assert COPY in world.doubts.doubted
    world.doubts.begin()
    world.epoch = 5
    world.renewed()

    assert await settled(world) == set()
    assert target.asked == [{COPY: 5, OTHER: 5}]


async def test_an_epoch_without_a_record_of_ours_says_nothing(world: World, target: Target) -> None:
    copied = [p.committed for p in world.runner.slot.partitions.values()]
    for partition in world.runner.slot.partitions.values():
        partition.committed = replace(partition.committed, records=0)
    await settled(world)
    for partition, committed in zip(world.runner.slot.partitions.values(), copied, strict=True):
        partition.committed = committed
    world.doubts.renew()
    await settled(world)

    assert target.asked == [{COPY: 4, OTHER: 4}]


@pytest.mark.parametrize(
    "found",
    [{}, {"start": 100, "base": 98, "end": 104}, {"base": 105, "end": 106}, {"end": 0}],
    ids=["it is there", "retention took it", "compaction took it", "all of it"],
)
async def test_an_epoch_that_ended_lower_is_no_loss_where_the_last_batch_is_ours(
    world: World, target: Target, found: dict[str, int]
) -> None:
    """The broker led on in another epoch before anybody told us."""
    target.ends[COPY] = CUT
    vars(target).update(found)

    assert await settled(world) == set()
    assert (fault_of(world), target.reads) == ("", 1)
    world.renewed()
    world.epoch += 1
    world.renewed()
    await settled(world)
    assert target.asked[-1] == {COPY: 4, OTHER: 4}


@pytest.mark.parametrize("what", ["no answer", "no batch"])
async def test_where_nobody_tells_it_waits_and_its_neighbour_goes_on(
    world: World, target: Target, what: str
) -> None:
    no_answer = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "east.orders-0")
    target.ends[COPY] = no_answer if what == "no answer" else CUT
    target.silent = True

    assert await settled(world) == {COPY}
    assert await world.copied(0, 1)
    assert produced(world) == {"produce east.orders-1"}

    target.silent, world.epoch = False, 5
    del target.ends[COPY]
    world.renewed()
    assert await settled(world) == set()
    assert target.asked[-1][COPY] == 0  # of the epoch in which it was copied
    assert fault_of(world) == ""


async def test_who_may_not_ask_goes_on_as_the_offsets_say(world: World, target: Target) -> None:
    target.ends[COPY] = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "east.orders-0")

    assert (await settled(world), fault_of(world)) == (set(), "")


async def test_of_what_has_no_record_yet_nobody_is_asked(world: World, target: Target) -> None:
    for partition in world.runner.slot.partitions.values():
        partition.committed = replace(partition.committed, records=0)

    assert (await settled(world), target.asked) == (set(), [])
