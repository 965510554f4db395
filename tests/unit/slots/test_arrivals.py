"""Since when a partition waits, from the answers of its source."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.budget import FrameLease
from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import Pace, SourceEnds
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.slots.arrivals import UNREADABLE_AGAIN_S, deliver, refused
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import LINK, entry, fetched, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.kafka.fetcher import FetchedPartition


class World:
    """A slot of one partition, whose source answers when a test says so."""

    def __init__(self, throttle: int | None = None) -> None:
        self.now = 0.0
        self.slot = slot(entry(throttle=throttle))
        self.partition = partition_of(self.slot)
        self.faults: list[Fault] = []
        self.runner = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now),
            slot=self.slot,
            link=LINK,
            reroute=lambda: None,
            sources=SimpleNamespace(of=lambda *_: LeaderAt(1, 0)),
            source_moved=lambda partition, error: None,
            stop_partition=lambda partition, fault: self.faults.append(fault),
        )

    def refuse(self, now: float, error: ErrorCode) -> None:
        self.now = now
        part = SimpleNamespace(topic="orders", partition=0, error=error, diverging_epoch=None)
        refused(cast("SlotRunner", self.runner), self.partition, cast("FetchedPartition", part), 1)

    def answer(self, now: float, *batches: tuple[int, list[bytes]], end: int) -> None:
        self.now, frame = now, fetched(*batches)
        account = self.slot._budget.account()
        account.resize(0, len(frame))
        lease = FrameLease(account, len(frame))
        answer = Answer(0, len(frame), SourceEnds(end, end, 0), ())
        deliver(cast("SlotRunner", self.runner), self.partition, frame, answer, lease)
        lease.done()


def test_a_quiet_partition_waits_from_its_first_new_record_on() -> None:
    world = World()
    world.answer(1.0, end=0)
    # no answer names it until something is new: sessions are incremental
    world.answer(3_600.0, (0, [b"v"]), end=1)
    assert world.partition.progress_at == 3_600.0
    world.answer(3_660.0, (1, [b"v"]), end=2)
    assert world.partition.progress_at == 3_600.0


def test_a_throttled_partition_is_not_asked_for_more_until_what_came_is_paid_off() -> None:
    batch = (0, [b"v" * 1_000])
    size = len(fetched(batch))
    world = World(throttle=size)

    def wanted(now: float) -> bool:
        return [world.slot.wanted(pace, now) for pace in Pace] != [[], []]

    world.answer(10.0, batch, end=9)
    assert (wanted(10.9), wanted(11.0)) == (False, True)

    world.answer(11.0, (1, batch[1]), end=9)
    world.answer(11.5, (2, batch[1]), end=9)  # of another connection
    assert (wanted(12.9), wanted(13.0)) == (False, True)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_log_that_its_broker_cannot_read_becomes_a_fault_when_it_lasts(error: ErrorCode) -> None:
    world = World()
    for second in range(30):
        world.refuse(100.0 + second, error)
        assert world.partition.held_until == world.now + UNREADABLE_AGAIN_S
    assert world.faults == []

    world.refuse(130.0, error)
    (fault,) = world.faults
    assert (fault.reason, fault.offset) == (FaultReason.SOURCE_CORRUPT, 0)
    assert str(error.name) in fault.detail


def test_an_answer_in_between_begins_anew() -> None:
    world = World()
    world.refuse(100.0, ErrorCode.CORRUPT_MESSAGE)
    world.answer(120.0, end=0)
    world.refuse(131.0, ErrorCode.CORRUPT_MESSAGE)
    world.refuse(132.0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert world.faults == []
