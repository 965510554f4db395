from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.limits import Limit, Limits
from mirrorfleet.copying.partition import Pace, SourceEnds, start_position
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.core.ids import Link, SlotNumber, SourceOffset
from mirrorfleet.records.catalog import CatalogState, Priority
from mirrorfleet.records.progress import Progress, decode, encode
from mirrorfleet.runtime.metrics import Exposition, Metrics
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.slots.untaken import Untaken
from services.mirror.reporting import (
    AWAY_S,
    NO_RETENTION_S,
    Gauges,
    headroom_s,
    snapshot,
    standing_still,
    status,
)
from tests.unit.copying.making import LINK, entry, fetched, give, identity, partition_of, slot
from tests.unit.wire.batches import patched

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.slot import Slot
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.catalog import CatalogPartition

NOW_MS = 10_000_000
HOUR_MS = 3_600_000


class Runner:
    """As much of a slot's runner as is told of."""

    surely = True
    """Whether no other worker can have the slot by now."""

    def __init__(self, made: Slot) -> None:
        self.slot, self.number, self.owner = made, SlotNumber(0), "worker-1"
        self.link: Link = LINK
        self.entries: dict[PartitionIdentity, CatalogPartition] = {
            each.identity: each.entry for each in made.partitions.values()
        }
        self.unstarted: dict[PartitionIdentity, CopyPartition] = {}
        self.state, self.trouble, self.is_lost = SlotState.WAITING, "", False
        self.limits, self.now = Limits(), 100.0
        self.clock = SimpleNamespace(monotonic=lambda: self.now, now_ms=lambda: NOW_MS)
        self.untaken = Untaken(cast("SlotRunner", self))

    def moves(self, *states: SlotState) -> None:
        for state in states:
            SlotRunner.move(cast("SlotRunner", self), state)

    def begins(self, positions: Slot) -> None:
        """The slot is taken; partitions are as in `positions`."""
        self.moves(SlotState.FENCING)
        self.slot.forget_all()
        self.moves(SlotState.READING)
        for each in positions.partitions.values():
            self.slot.admit(each.entry, each.committed).progress_at = self.now
        self.moves(SlotState.COPYING)

    def fails(self, trouble: str, after_s: float = 0.0) -> None:
        """It is interrupted and cannot be taken since then."""
        self.trouble = trouble
        self.moves(SlotState.WAITING, SlotState.FENCING)
        self.slot.forget_all()
        self.moves(SlotState.WAITING)
        self.now += after_s

    @property
    def gauges(self) -> Gauges:
        told = [cast("SlotRunner", self)]
        return Gauges(lambda: told, lambda: told if self.surely else [], list, list)

    @property
    def told(self) -> Progress:
        """What readers find in the topic."""
        found = decode(*encode(snapshot(cast("SlotRunner", self), NOW_MS, self.now)))
        assert isinstance(found, Progress)
        return found

    @property
    def status(self) -> dict[str, object]:
        return status([cast("SlotRunner", self)])[0]


def copying(state: CatalogState = CatalogState.ACTIVE) -> tuple[Runner, CopyPartition]:
    """A slot of one partition that copies: 10 of 25 offsets are committed."""
    entries = entry(source_retention_ms=HOUR_MS, state=state)
    at = slot(entries)
    partition = partition_of(at)
    partition.committed = replace(partition.committed, next_source=SourceOffset(10))
    runner = Runner(slot(entries))
    runner.begins(at)
    partition = partition_of(runner.slot)
    partition.source = SourceEnds(25, 25, 0)
    return runner, partition


def test_a_link_whose_slots_were_all_lost_is_seen_to_have_no_worker() -> None:
    """A series that vanishes raises no alert; what the slots are at is their owner's to tell."""
    lost = cast("SlotRunner", SimpleNamespace(link="east->west", state=SlotState.LOST))
    gauges = Gauges(list, list, lambda: [lost], list)

    assert list(gauges.owned()) == [(("east->west",), 0)]
    assert list(gauges.since_progress()) == []


def test_a_link_of_which_no_slot_was_ever_given_is_seen_to_have_no_worker() -> None:
    assert list(Gauges(list, list, list, lambda: [LINK]).owned()) == [(("east->west",), 0)]


def test_a_source_that_does_not_answer_for_a_while_is_told_and_no_lag_of_its_topic() -> None:
    runner, partition = copying()
    partition.away_since = runner.now
    runner.now += AWAY_S - 0.1
    assert runner.told.partitions[0].state == "live"  # its leader may be moving
    runner.now += 0.2

    (told,) = runner.told.partitions
    assert (told.state, told.last_stable, told.lag_records) == ("unreachable", 25, None)
    assert dict(runner.gauges.partitions()) == {("east->west", "unreachable"): 1}
    assert dict(runner.gauges.record_lag()) == {}
    assert (runner.status["lag_records"], runner.status["lag_unknown"]) == (0, 1)
    partition.source = SourceEnds()
    assert runner.told.partitions[0].state == "unreachable"
    partition.away_since = None
    assert runner.told.partitions[0].state == "starting"


def test_a_topic_has_no_lag_while_that_of_one_partition_is_not_known() -> None:
    runner, partition = copying()
    begun = runner.slot.admit(entry(1), start_position(identity(1), SourceOffset(0), 1))
    other = entry(2, source_topic="payments")
    runner.slot.admit(
        other, start_position(other.identity, SourceOffset(0), 1)
    ).source = SourceEnds(4, 4, 0)
    assert dict(runner.gauges.record_lag()) == {("east->west", "payments"): 4}
    assert dict(runner.gauges.record_lag_unknown()) == {
        ("east->west", "orders"): 1,
        ("east->west", "payments"): 0,
    }
    assert (runner.status["lag_records"], runner.status["lag_unknown"]) == (19, 1)

    begun.source = SourceEnds(2, 2, 0)
    assert dict(runner.gauges.record_lag())["east->west", "orders"] == 17
    assert dict(runner.gauges.record_lag_unknown())["east->west", "orders"] == 0
    assert partition.has_work


def test_of_two_workers_that_share_a_topic_the_one_that_does_not_see_its_part_says_so() -> None:
    """Who adds up the lags of both would take the half of one for all of it."""
    seeing, _ = copying()
    blind, partition = copying()
    partition.away_since = blind.now - AWAY_S

    lines = [scraped(each) for each in (seeing, blind)]
    of_topic = '{link="east->west",topic="orders"}'
    assert f"mirrorfleet_record_lag{of_topic} 15.0" in lines[0]
    assert f"mirrorfleet_record_lag_unknown{of_topic} 0.0" in lines[0]
    assert [line for line in lines[1] if line.startswith("mirrorfleet_record_lag{")] == []
    assert f"mirrorfleet_record_lag_unknown{of_topic} 1.0" in lines[1]


def scraped(runner: Runner) -> list[str]:
    metrics = Metrics()
    runner.gauges.register(metrics)
    return Exposition(metrics).text().decode().splitlines()


def test_what_a_new_worker_cannot_take_counts_as_unknown_and_not_as_nothing_to_copy() -> None:
    runner, _ = copying()
    other = entry(1)
    runner.entries[other.identity] = other
    assert dict(runner.gauges.record_lag()) == {}
    assert dict(runner.gauges.record_lag_unknown()) == {("east->west", "orders"): 1}

    runner.moves(SlotState.LOST, SlotState.WAITING)
    runner.slot.forget_all()
    runner.moves(SlotState.FENCING)
    assert dict(runner.gauges.record_lag()) == {}
    assert dict(runner.gauges.record_lag_unknown()) == {("east->west", "orders"): 2}


def test_where_only_markers_came_since_the_last_commit_nobody_tells_a_lag() -> None:
    runner, partition = copying()
    partition.walked_to = SourceOffset(25)

    assert runner.told.partitions[0].lag_records == 0
    assert dict(runner.gauges.record_lag()) == {("east->west", "orders"): 0}
    assert runner.status["lag_records"] == 0
    assert partition.has_work  # a commit that should pass them and fails is seen


def test_a_slot_that_cannot_be_taken_is_told_as_it_was_left_and_why() -> None:
    runner, _ = copying()
    runner.fails("the coordinator does not answer.", after_s=31.0)

    (partition,) = runner.told.partitions
    assert (partition.next_source, partition.lag_records, partition.state) == (10, 15, "starting")
    assert (runner.told.word, runner.told.trouble) == ("waiting", "the coordinator does not answer")
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 31.0}
    assert dict(runner.gauges.record_lag()) == {("east->west", "orders"): 15}
    assert (runner.status["limit"], runner.status["why"], runner.status["lag_records"]) == (
        Limit.UNTAKEN,
        "the slot is not copied: the coordinator does not answer.",
        15,
    )


def test_what_is_summed_over_workers_is_not_told_of_a_slot_that_another_one_may_copy() -> None:
    runner, partition = copying()
    partition.fault = Fault(FaultReason.SOURCE_CORRUPT, SourceOffset(10), "x")
    runner.fails("the coordinator does not answer.", after_s=31.0)
    assert dict(runner.gauges.faulted()) == {("east->west", "source-corrupt"): 1}
    runner.surely = False

    gauges = runner.gauges
    assert [dict(each()) for each in (gauges.faulted, gauges.partitions, gauges.record_lag)] == (
        [{}, {}, {}]
    )
    assert dict(gauges.since_progress()) == {("east->west", "0"): 31.0}


def test_a_slot_that_a_new_worker_cannot_take_is_told_without_positions_but_with_why() -> None:
    made = slot()
    runner = Runner(made)
    made.forget_all()
    made.remembered.clear()
    runner.fails("slot 0 was fenced by ann: drill.", after_s=10.0)

    assert (runner.told.partitions, runner.told.trouble) == ((), "slot 0 was fenced by ann: drill")
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 10.0}
    runner.entries = {each: entry(state=CatalogState.PAUSED) for each in runner.entries}
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 0.0}


def test_a_slot_that_changes_hands_has_no_trouble_yet() -> None:
    runner, _ = copying()
    runner.fails("aborted: a new epoch is needed", after_s=9.9)

    assert (runner.told.state, len(runner.told.partitions)) == ("waiting", 1)


def test_what_another_worker_may_have_copied_since_is_not_told() -> None:
    runner, _ = copying()
    runner.moves(SlotState.LOST, SlotState.WAITING)
    runner.slot.forget_all()
    runner.moves(SlotState.FENCING)

    assert runner.told.partitions == ()


def test_a_slot_that_is_taken_and_aborted_again_and_again_has_stood_still_all_the_time() -> None:
    runner, partition = copying()
    before = partition.progress_at
    for _ in range(4):
        runner.fails("aborted: NOT_ENOUGH_REPLICAS", after_s=10.0)
        runner.moves(SlotState.FENCING, SlotState.READING)
        again = runner.slot.admit(partition.entry, partition.committed)
        runner.moves(SlotState.COPYING)

    assert again.progress_at == before
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 40.0}


def test_a_trouble_of_a_slot_that_copies_stands_beside_what_limits_it() -> None:
    runner, _ = copying()
    runner.trouble = "broker 1 is away"

    assert runner.status["why"] == "not looked at yet; trouble: broker 1 is away"


def test_backlog_that_waits_for_a_more_urgent_one_is_told_so_and_does_not_stand_still() -> None:
    urgency = Urgency()
    urgent = slot(entry(1, priority=Priority.HIGH), urgency=urgency, number=1)
    partition_of(urgent, 1).pace = Pace.CATCH_UP
    runner, partition = copying()
    runner.slot._urgency = urgency
    partition.pace = Pace.CATCH_UP
    runner.now += 5.0
    partition_of(urgent, 1).progress_at = runner.now
    urgent.wanted(Pace.CATCH_UP, runner.now)
    runner.now += 120.0
    assert runner.slot.wanted(Pace.CATCH_UP, runner.now) == []

    (told,) = runner.told.partitions
    assert (told.state, told.last_progress_ms) == ("waiting", NOW_MS)
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 0.0}
    assert dict(runner.gauges.partitions()) == {("east->west", "waiting"): 1}


def test_where_nothing_waits_no_retention_is_near_however_short_it_is() -> None:
    runner, partition = copying()
    partition.committed = replace(partition.committed, next_source=SourceOffset(25))

    assert dict(runner.gauges.headroom()) == {("east->west",): NO_RETENTION_S}
    runner.fails("away", after_s=600.0)
    assert dict(runner.gauges.headroom()) == {("east->west",): 3_000.0}


def test_of_a_live_copy_no_retention_is_near_however_short_it_is() -> None:
    _runner, partition = copying()
    retention_ms = HOUR_MS // 2
    partition.entry = replace(partition.entry, source_retention_ms=retention_ms)
    partition.last_timestamp = NOW_MS - 50
    assert headroom_s(partition, NOW_MS) == NO_RETENTION_S

    partition.last_timestamp = NOW_MS - retention_ms * 8 // 10
    assert headroom_s(partition, NOW_MS) == 360.0

    partition.committed = replace(partition.committed, next_source=SourceOffset(25))
    assert headroom_s(partition, NOW_MS, unread_s=5.0) == NO_RETENTION_S
    assert headroom_s(partition, NOW_MS, unread_s=600.0) == 1_200.0


def test_a_partition_that_stands_still_keeps_its_headroom_through_a_new_producer_id() -> None:
    runner, partition = copying()
    partition.last_timestamp = NOW_MS - 3_000_000
    runner.slot.fault(partition, Fault(FaultReason.KEY_MISSING, SourceOffset(10), "no key"), 1.0)
    headroom = {("east->west",): 600.0}
    assert dict(runner.gauges.headroom()) == headroom

    runner.fails("aborted", after_s=1.0)
    assert dict(runner.gauges.headroom()) == headroom
    runner.moves(SlotState.FENCING, SlotState.READING)
    again = runner.slot.admit(partition.entry, partition.committed)
    runner.moves(SlotState.COPYING)
    assert again.fault is not None
    assert dict(runner.gauges.headroom()) == headroom


def test_headroom_is_that_of_the_first_record_that_came_or_not_known_at_all() -> None:
    made = slot(entry(source_retention_ms=HOUR_MS))
    partition = made.partitions[identity()]
    assert headroom_s(partition, NOW_MS) is None
    partition.source = SourceEnds(1, 1, 0)
    assert headroom_s(partition, NOW_MS) is None

    give(made, partition, fetched((0, [b"v"])), end=1)
    made.rewind()
    assert headroom_s(partition, HOUR_MS) == pytest.approx(1.0)
    partition.entry = replace(partition.entry, source_retention_ms=None)
    assert headroom_s(partition, HOUR_MS) is None  # nobody may read it, and it may be near
    partition.entry = replace(partition.entry, source_retention_ms=-1)
    assert headroom_s(partition, HOUR_MS) == NO_RETENTION_S


def test_what_waits_is_as_old_as_its_records_and_not_as_the_horizon_of_a_cleaner() -> None:
    runner, partition = copying()
    cleaned = patched(fetched((10, [b"v"])), attributes=0x40, base_timestamp=NOW_MS + HOUR_MS)
    give(runner.slot, partition, cleaned, end=25)

    (told,) = runner.told.partitions
    assert told.oldest_uncopied_ms == 1_000


def test_a_paused_partition_tells_no_headroom_where_nothing_waited() -> None:
    runner, partition = copying(state=CatalogState.PAUSED)
    partition.committed = replace(partition.committed, next_source=SourceOffset(25))

    assert dict(runner.gauges.headroom()) == {}


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ((), ""),
        ((85.0, 95.0), ""),
        ((85.0, None), ""),
        ((85.0, 80.0), "none of 2 slots is copied; slot 0: User:copier may not WRITE"),
    ],
    ids=["no slots", "one that may only change hands", "one is copied", "none is copied"],
)
def test_a_worker_that_copies_none_of_its_slots_says_why(
    since: tuple[float | None, ...], said: str
) -> None:
    runners = [
        SimpleNamespace(
            number=number,
            untaken=SimpleNamespace(since=at),
            trouble="User:copier may not WRITE.",
        )
        for number, at in enumerate(since)
    ]

    assert standing_still(cast("list[SlotRunner]", runners), 100.0) == said
