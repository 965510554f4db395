"""What waits for the target is written, and a partition that takes no write stops no other one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.lagging.board import Change, Told
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.records import samples
from mirrorfleet.records.samples import Sample, Verdict
from services.lag.service import WRITING, LagService
from tests.fakes.clock import HandClock
from tests.unit.lagging.making import entry
from tests.unit.standby.test_demotion import Fleet
from tests.unit.views.making import sample

if TYPE_CHECKING:
    from mirrorfleet.kafka.control import ControlWriter
    from mirrorfleet.kafka.control_writer import Entry

SLOTS = range(16)
BAD = 7
OTHERS = [slot for slot in SLOTS if slot != BAD]
LEDGER = -1
"""The ledger, among the numbers of the partitions of `.samples`."""
SOON_S = 0.05


class Writer:
    """Refuses the partitions that a test wants refused, and answers nothing about others."""

    def __init__(self, service: LagService) -> None:
        self.ledger = service._ledger
        self.refused: set[int] = set()
        self.silent: set[int] = set()
        self.most = 1_000
        """So many entries are written before the time is over."""
        self.written: list[tuple[int, int]] = []
        """Number of the partition and time of each sample, of a change 0."""
        self.ages: dict[int, int | None] = {}
        """Of the last sample of each."""
        service._writer = cast("ControlWriter", self)

    async def write_out(self, at: TopicPartition, entries: list[Entry], now_ms: int) -> None:
        del now_ms
        number = LEDGER if at == self.ledger else at.partition
        if number in self.refused:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, f"writing {at}")
        await (asyncio.Event().wait() if number in self.silent else asyncio.sleep(0))
        some = entries[: self.most]
        self.written += [(number, time_of(each)) for each in some]
        self.ages[number] = age_of(some[-1])
        del entries[: self.most]
        if entries:
            raise DeadlineError(f"writing {at}")

    def heal(self) -> None:
        self.refused, self.silent, self.written = set(), set(), []

    def times(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, time_ms in self.written:
            found.setdefault(number, []).append(time_ms)
        return found


def time_of(entry: Entry) -> int:
    key, value = entry
    found = samples.decode(key, value) if key else None
    return found.time_ms if isinstance(found, Sample) else 0


def age_of(entry: Entry) -> int | None:
    found = samples.decode(*entry)
    return found.age_ms if isinstance(found, Sample) else None


def tell(service: LagService, time_ms: int, *, changed: frozenset[int] = frozenset()) -> None:
    """A sample of every slot, and changes of some."""
    for slot in map(SlotNumber, SLOTS):
        told = Told([sample(entry(), slot=slot, time_ms=time_ms)])
        if slot in changed:
            told.changes.append(Change(PartitionLag(entry()), Verdict.OK, Verdict.STUCK, "why"))
        service._tell(slot, told)


@pytest.mark.parametrize("how", ["refused", "silent"])
async def test_a_partition_that_takes_no_write_silences_its_own_slot_alone(how: str) -> None:
    service = LagService(Fleet().context)
    writer = Writer(service)
    setattr(writer, how, {BAD})

    for time_ms in (1, 2):
        tell(service, time_ms)
        await service._flush(SOON_S)

    assert writer.times() == {slot: [1, 2] for slot in OTHERS}
    assert f"samples-{BAD}" in service._context.health.reasons()[WRITING]

    writer.heal()
    tell(service, 3)
    await service._flush(SOON_S)

    assert writer.times() == {slot: [3] for slot in OTHERS} | {BAD: [1, 2, 3]}
    assert WRITING not in service._context.health.reasons()


@pytest.mark.parametrize("how", ["refused", "silent"])
async def test_a_ledger_that_takes_no_write_holds_back_the_slots_with_a_change_alone(
    how: str,
) -> None:
    service = LagService(Fleet().context)
    writer = Writer(service)
    setattr(writer, how, {LEDGER})

    for time_ms, changed in ((1, {BAD}), (2, set[int]())):
        tell(service, time_ms, changed=frozenset(changed))
        await service._flush(SOON_S)

    assert writer.times() == {slot: [1, 2] for slot in OTHERS}

    writer.heal()
    await service._flush(SOON_S)

    assert writer.written == [(LEDGER, 0), (BAD, 1), (BAD, 2)]  # whoever reads 1 takes 0 for told


async def test_who_is_ended_while_it_writes_ends_and_keeps_what_is_not_written() -> None:
    service = LagService(Fleet().context)
    writer = Writer(service)
    writer.silent = {BAD}
    tell(service, 1, changed=frozenset({BAD}))
    writing = asyncio.create_task(service._flush(60))
    await asyncio.sleep(SOON_S)
    tell(service, 2)

    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    assert writer.times() == {LEDGER: [0]} | {slot: [1] for slot in OTHERS}
    writer.heal()
    await service._flush(SOON_S)
    assert writer.times() == {slot: [2] for slot in OTHERS} | {BAD: [1, 2]}


async def test_what_is_written_in_time_is_not_written_again() -> None:
    """Under a quota of the target a backlog takes many turns."""
    service = LagService(Fleet().context)
    writer = Writer(service)
    writer.most = 2
    for time_ms in range(1, 6):
        tell(service, time_ms)
    for time_ms in (6, 7):
        await service._flush(SOON_S)
        tell(service, time_ms)
    for _ in range(3):
        await service._flush(SOON_S)

    assert writer.times() == {slot: [*range(1, 8)] for slot in SLOTS}
    assert not service._pending


async def test_what_waited_tells_for_how_long() -> None:
    """By our clock alone: that of who reads it may be hours away."""
    fleet = Fleet()
    clock = HandClock()
    fleet.context = replace(fleet.context, clock=clock)
    service = LagService(fleet.context)
    writer = Writer(service)
    writer.refused = {BAD}
    tell(service, clock.now_ms())
    await service._flush(SOON_S)

    writer.refused = set()
    clock.seconds += 90
    await service._flush(SOON_S)

    assert writer.ages == dict.fromkeys(OTHERS, 0) | {BAD: 90_000}
