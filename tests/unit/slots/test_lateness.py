"""Which late answers are looked into, and what is found to stand still."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.allowance import Allowance
from mirrorfleet.copying.transaction import Touch
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.inspection import ActiveProducer
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.records.formats import LEVELS
from mirrorfleet.slots import lateness
from mirrorfleet.slots.outgoing import Outgoing, Pipe
from tests.unit.copying.making import entry, slot

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.producer import ProduceLane
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

PRODUCER, ANOTHER = ProducerIdentity(7, 1), ProducerIdentity(8, 1)
SICK, WELL, THIRD = (TopicPartition("east.orders", number) for number in range(3))
COUNT = 5
"""Records of each batch; sequences begin at 10."""


class World:
    """A request with a batch of each of three partitions, without an answer."""

    closed = fails = False
    is_sick = True
    asks = 0
    short: TopicPartition | None = SICK

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.high = {SICK: [100], WELL: [105], THIRD: [105]}
        """High watermarks of one look after the other; the last one stays."""
        self.last = dict.fromkeys(self.high, 14)
        """The last sequence that the leader has of us."""
        self.suspects: set[TopicPartition] = set()
        self.slot = slot(*(entry(number) for number in range(3)))
        copied = list(self.slot.partitions.values())
        self.slot.open = {each: Touch(TargetOffset(0)) for each in copied}
        lane = SimpleNamespace(close=self.close, send=self.send)
        clock = cast("Clock", SimpleNamespace(monotonic=lambda: 0.0))
        self.pipe = Pipe(cast("ProduceLane", lane), Allowance(), clock)
        header = bytes(53) + (10).to_bytes(4, "big") + bytes(4)
        items = [
            SimpleNamespace(
                partition=each,
                batch=SimpleNamespace(count=COUNT, size=1),
                entry=None,
                at=each.target,
                sequence=int.from_bytes(header[53:57], "big"),
            )
            for each in copied
        ]
        self.pipe.request(cast("list[Outgoing]", items), timeout_ms=5)
        self.runner = SimpleNamespace(
            slot=self.slot,
            number=0,
            formats=LEVELS[2],
            target=None,
            wedges=SimpleNamespace(suspect=self.suspects.update, sick_of=self.sick_of),
            clock=SimpleNamespace(monotonic=lambda: 1.0),
            targets=SimpleNamespace(is_short=lambda *at: at == self.short, ask=self.ask),
        )
        self.sender = SimpleNamespace(producer=PRODUCER, pipes=SimpleNamespace(late=self.late))
        monkeypatch.setattr(lateness, "describe_producers", self.producers)
        monkeypatch.setattr(lateness, "list_offsets", self.offsets)
        for name in ("TICK_S", "BETWEEN_S"):
            monkeypatch.setattr(lateness, name, 0.0)
        monkeypatch.setattr(lateness, "AGAIN_S", 60.0)

    async def sick_of(self, suspects: set[TopicPartition]) -> set[TopicPartition]:
        return {at for at in suspects if self.is_sick and at == self.short}

    def send(self, entries: object, *, timeout_ms: int) -> asyncio.Future[object]:
        del entries, timeout_ms
        self.answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        return self.answer

    def ask(self) -> None:
        self.asks += 1

    def close(self) -> None:
        self.closed = True

    def late(self, after_s: float) -> list[Pipe]:
        return [self.pipe] if self.pipe.waits_s(1.0) > after_s else []

    async def producers(
        self, cluster: object, asked: list[TopicPartition], *, deadline_s: float
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        del cluster, deadline_s
        if self.fails:
            raise DeadlineError("no answer")
        others = ActiveProducer(ANOTHER, 14, 0, 50)
        return {at: [others, ActiveProducer(PRODUCER, self.last[at], 0, 100)] for at in asked}

    async def offsets(
        self, cluster: object, asked: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, ListedOffset]:
        del cluster
        highs = {at: self.high[at] for at in asked}
        taken = {at: each.pop(0) if len(each) > 1 else each[0] for at, each in highs.items()}
        return {at: ListedOffset(offset, -1, 0) for at, offset in taken.items()}

    async def found(self) -> set[TopicPartition]:
        """What one look finds."""
        watching = lateness.watch(cast("SlotRunner", self.runner), cast("Sender", self.sender))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await watching
        assert self.closed == bool(self.suspects)
        return self.suspects


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_what_is_appended_and_not_replicated_in_two_looks_is_suspected(world: World) -> None:
    assert await world.found() == {SICK}


async def test_one_with_as_many_replicas_in_sync_as_are_asked_for_is_only_slow(
    world: World,
) -> None:
    world.is_sick = False
    assert await world.found() == set()


async def test_a_partition_whose_high_watermark_moves_is_waited_for(world: World) -> None:
    world.high[SICK] = [100, 103]
    assert await world.found() == set()


async def test_what_did_not_reach_the_leader_yet_is_waited_for(world: World) -> None:
    world.last[SICK] = 9
    assert await world.found() == set()


async def test_when_most_stand_still_replication_is_slow_and_nothing_is_aborted(
    world: World,
) -> None:
    world.high = {SICK: [100], WELL: [100], THIRD: [105]}
    assert await world.found() == set()


async def test_a_batch_ends_behind_what_was_acknowledged_in_the_same_transaction(
    world: World,
) -> None:
    world.high = {at: [300] for at in world.high}
    touch = next(iter(world.slot.open.values()))
    touch.next_target, touch.acked_to = TargetOffset(300), SourceOffset(1)
    assert await world.found() == {SICK}


async def test_where_all_replicas_are_in_sync_only_the_metadata_is_looked_at_once(
    world: World,
) -> None:
    world.short = None
    assert (await world.found(), world.asks) == (set(), 1)


async def test_before_format_level_2_nothing_is_looked_into(world: World) -> None:
    world.runner.formats = LEVELS[1]
    assert await world.found() == set()


async def test_a_look_that_fails_changes_nothing(world: World) -> None:
    world.fails = True
    assert await world.found() == set()


async def test_an_answer_in_time_is_not_looked_into(world: World) -> None:
    world.answer.set_result([])
    await asyncio.sleep(0)
    assert (world.pipe.waiting, world.pipe.waits_s(9.0)) == ([], 0.0)
    assert await world.found() == set()
