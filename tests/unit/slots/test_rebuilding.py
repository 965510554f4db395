"""Positions that are lost: which are found to be, what they are made from, and who is stopped."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.ahead import Compared
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.positions import Position
from mirrorfleet.slots import ledger, rebuilding, succession
from mirrorfleet.slots.rebuilding import rebuild
from mirrorfleet.slots.starting import Starts
from mirrorfleet.slots.taking import admit
from tests.unit.copying.making import entry, identity, slot
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.offsets.ahead import Ends
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

ONE, OTHER = identity(0), identity(1)
BEYOND = 500
"""Where the target has a record that the map lacks."""
NO_STARTS = Starts({}, {})


def at(who: PartitionIdentity, source: int, target: int, size: int = 7) -> Position:
    made = start_position(who, SourceOffset(source), 1, TargetOffset(target))
    return replace(made, bytes=size, records=source)


class Slots:
    """A slot of two partitions as it is taken, and what the stored map says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: dict[PartitionIdentity, Position] = {}
        """The newest positions that were committed."""
        self.slot = slot(entry(0), entry(1))
        self.slot.forget_all()
        self.slot.left.clear()
        self.slot.ever_known.clear()
        self.entries = {each.identity: each for each in (entry(0), entry(1))}
        self.unstarted: dict[PartitionIdentity, object] = {}
        self.index = OffsetIndex()
        self.ahead: set[PartitionIdentity] | Exception = set()
        self.short: Ends = {}
        self.short_told: dict[PartitionIdentity, tuple[TargetOffset, TargetOffset]] = {}
        self.asked: Mapping[PartitionIdentity, TargetOffset] = {}
        self.told: list[str] = []
        self.reports: list[object] = []
        self.written: list[Position] = []
        self.beyond: int | None = None
        self.clock = SimpleNamespace(now_ms=lambda: 9, monotonic=lambda: 1.0)
        self.doubts = self.wedges = SimpleNamespace(doubt=lambda _: None, left_behind=frozenset())
        self.sources = self.targets = SimpleNamespace(topic_id=lambda _: None)
        self.target, self.mender, self.meters, self.number, self.counted = None, self, self, 0, 0

        async def bounds(*_: object) -> tuple[int, int]:
            return 0, 1_000

        async def first_committed(_: object, __: object, start: int, ___: int) -> int | None:
            return None if self.beyond is None or self.beyond < start else self.beyond

        async def last_told(_: object) -> dict[PartitionIdentity, object]:
            return {}

        def written(_: object, positions: list[Position], __: object) -> list[object]:
            self.written += positions
            return []

        monkeypatch.setattr(rebuilding, "log_bounds", bounds)
        monkeypatch.setattr(rebuilding, "first_committed", first_committed)
        monkeypatch.setattr(succession, "last_told", last_told)
        monkeypatch.setattr(ledger, "control_entries", written)

    async def compared_with(self, copied: Mapping[PartitionIdentity, TargetOffset]) -> Compared:
        self.asked = copied
        if isinstance(self.ahead, Exception):
            raise self.ahead
        return Compared(self.ahead, self.short)

    def map_short(self, partitions: int) -> None:
        self.counted += partitions

    async def maps_of(self, wanted: object) -> OffsetIndex:
        del wanted
        return self.index

    def tell(self, kind: object, detail: str) -> None:
        del kind
        self.told.append(detail)

    def report_fault(self, partition: object) -> None:
        self.reports.append(partition)

    async def commit_control(self, entries: object) -> None:
        del entries

    async def take(self) -> dict[int, int]:
        """Where each partition that is copied goes on."""
        runner, sender = cast("SlotRunner", self), cast("Sender", self)
        self.slot.forget_all()
        self.slot.known = {each.identity: each for each in self.log.values()}
        await rebuild(runner, sender)
        self.log.update({each.identity: each for each in self.written})
        await admit(runner, sender, list(self.entries.values()), NO_STARTS)
        found = self.slot.partitions
        return {one.partition: found[one].committed.next_source for one in found}


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Slots:
    made = Slots(monkeypatch)
    made.log = {ONE: at(ONE, 100, 120), OTHER: at(OTHER, 30, 40)}
    made.index.add(ONE, [run_of(0, 150, 5)])
    made.index.add(OTHER, [run_of(0, 30, 10)])
    return made


async def test_positions_that_the_segments_know_nothing_better_of_stand(slots: Slots) -> None:
    assert await slots.take() == {0: 100, 1: 30}
    assert slots.asked == {ONE: 120, OTHER: 40}
    assert (slots.written, slots.told) == ([], [])


async def test_a_position_older_than_the_copy_is_made_again_and_its_neighbours_stand(
    slots: Slots,
) -> None:
    slots.ahead = {ONE}
    assert await slots.take() == {0: 150, 1: 30}
    (made,) = slots.written
    assert (made.next_source, made.next_target, made.bytes, made.fault) == (150, 155, 7, None)
    assert slots.told == ["slot 0: 1 positions were lost and made from the map"]


async def test_one_that_is_gone_though_segments_have_it_is_made_again(slots: Slots) -> None:
    del slots.log[ONE]
    slots.ahead = {ONE}
    assert await slots.take() == {0: 150, 1: 30}
    assert slots.asked == {ONE: 0, OTHER: 40}


async def test_where_the_map_is_short_as_well_the_partition_stops_for_every_later_owner(
    slots: Slots,
) -> None:
    slots.ahead, slots.beyond = {ONE}, BEYOND
    assert await slots.take() == {1: 30}
    (kept,) = slots.written
    assert (kept.next_source, kept.next_target) == (100, 120)
    assert kept.fault is not None
    assert kept.fault.kind == FaultReason.POSITION_LOST
    assert "has records from 500 on that the map, up to 155, has not" in kept.fault.detail

    slots.ahead, slots.written = set(), []  # the segments were packed and freed
    slots.unstarted.clear()
    assert await slots.take() == {1: 30}
    assert slots.written == []  # it is there already

    slots.beyond, slots.unstarted = None, {}
    assert await slots.take() == {0: 150, 1: 30}


async def test_one_whose_map_is_gone_too_is_never_begun_anew(slots: Slots) -> None:
    slots.log, slots.index = {}, OffsetIndex()
    slots.slot.ever_known = {ONE: None}  # as this process, or its progress, knows
    assert await slots.take() == {}
    (kept,) = slots.written
    assert kept.identity == ONE
    assert kept.fault is not None

    slots.slot.ever_known, slots.unstarted, slots.written = {}, {}, []
    assert await slots.take() == {}  # another process, and its progress says nothing any more
    assert set(slots.unstarted) == {ONE, OTHER}


@pytest.mark.parametrize(
    ("start", "records", "is_lost"),
    [
        ("earliest", 0, False),
        ("offset:5", 0, False),
        ("earliest", 1, True),
        ("latest", 0, True),  # what has come since would be skipped
    ],
)
async def test_one_that_never_had_a_record_begins_anew_when_all_positions_are_gone(
    slots: Slots, start: str, records: int, *, is_lost: bool
) -> None:
    idle = replace(start_position(OTHER, SourceOffset(7), 1), records=records)
    slots.entries[OTHER] = replace(slots.entries[OTHER], start=start)
    slots.log[OTHER] = idle
    await slots.take()

    slots.log, slots.index = {}, OffsetIndex()
    await slots.take()

    assert {each.identity for each in slots.written if each.fault} >= {ONE}
    assert any(each.identity == OTHER for each in slots.written) == is_lost


async def test_who_goes_on_with_the_spare_id_does_not_copy_what_is_lost(slots: Slots) -> None:
    slots.ahead, slots.beyond = {ONE}, BEYOND
    await slots.take()
    runner, sender = cast("SlotRunner", slots), cast("Sender", slots)
    slots.slot.forget_all()
    slots.slot.known = dict(slots.log)
    slots.unstarted.clear()
    entries = list(slots.entries.values())
    await admit(runner, sender, entries, NO_STARTS)
    assert set(slots.slot.partitions) == {OTHER}


async def test_what_stands_still_for_the_same_reason_is_told_as_what_stood_there(
    slots: Slots,
) -> None:
    slots.ahead, slots.beyond = {ONE}, BEYOND
    await slots.take()
    waiting = slots.unstarted[ONE]
    await slots.take()
    assert all(each is waiting for each in slots.reports)
    slots.beyond = None
    await slots.take()
    assert slots.unstarted == {}


async def test_a_map_that_lost_segments_stops_nobody_and_is_told(slots: Slots) -> None:
    slots.short = {OTHER: TargetOffset(25)}

    assert await slots.take() == {0: 100, 1: 30}
    (told,) = slots.told
    assert (
        f"slot 0: its segments lost what they had of the copies to {entry(1).target} [25, 40)"
        in told
    )
    assert (slots.written, slots.counted) == ([], 1)
    await slots.take()
    assert (len(slots.told), slots.counted) == (1, 1)  # the same loss is told once
    slots.short = {OTHER: TargetOffset(20)}
    await slots.take()
    assert (len(slots.told), slots.counted) == (2, 2)


async def test_segments_that_cannot_be_read_stop_nobody(slots: Slots) -> None:
    slots.ahead = CorruptBatchError("segment: 3 payloads do not fit what is left")
    assert await slots.take() == {0: 100, 1: 30}
