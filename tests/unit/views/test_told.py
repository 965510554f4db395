"""What is kept of the control topics, and rates between two reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SlotNumber, SourceOffset
from mirrorfleet.records import progress, reports, samples, traces
from mirrorfleet.records.events import Event
from mirrorfleet.records.reports import Report
from mirrorfleet.records.samples import Verdict
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.views.told import MOST_EVENTS, Rate, Told
from tests.unit.views.making import NOW, entry, fleet, report, sample, snapshot

ENTRY = entry()


def test_a_rate_is_what_came_between_two_reports_of_the_same_owner() -> None:
    first = snapshot(report(ENTRY), time_ms=NOW - 5_000)
    second = snapshot(report(ENTRY, records=115, bytes=10_500), time_ms=NOW - 1_000)

    assert fleet([ENTRY], first).told.rate(ENTRY.identity, NOW) is None
    assert fleet([ENTRY], first, second).told.rate(ENTRY.identity, NOW) == Rate(
        5.0, 250.0, 0.0, 0.0
    )


@pytest.mark.parametrize(
    ("before", "after", "arrived"),
    [
        ({}, {"last_stable": SourceOffset(150)}, 10.0),
        ({"last_stable": SourceOffset(-1)}, {}, None),
        ({}, {"last_stable": SourceOffset(-1)}, None),
        ({"state": progress.UNREACHABLE}, {}, None),
        ({}, {"last_stable": SourceOffset(109)}, None),
    ],
)
def test_what_comes_at_the_source_is_known_where_its_end_was_known_both_times(
    before: dict[str, object], after: dict[str, object], arrived: float | None
) -> None:
    first = snapshot(report(ENTRY, **before), time_ms=NOW - 5_000)
    second = report(ENTRY, **{"next_source": SourceOffset(108), **after})
    found = fleet([ENTRY], first, snapshot(second, time_ms=NOW - 1_000)).told

    assert found.rate(ENTRY.identity, NOW) == Rate(0.0, 0.0, 2.0, arrived)


def test_a_silent_owner_has_no_rate_and_a_new_owner_begins_anew() -> None:
    first = snapshot(report(ENTRY), time_ms=NOW - 5_000)
    second = snapshot(report(ENTRY, records=115), time_ms=NOW - 1_000)
    other = replace(second, owner="worker-2")

    assert fleet([ENTRY], first, second).told.rate(ENTRY.identity, NOW + 9_001) is None
    assert fleet([ENTRY], first, other).told.rate(ENTRY.identity, NOW) is None


def test_a_slot_whose_clock_went_back_is_known_by_what_was_told_last() -> None:
    before, after = snapshot(report(ENTRY)), snapshot(report(ENTRY, records=200), time_ms=1)
    told = fleet([ENTRY], before, after, sample(ENTRY), sample(ENTRY, time_ms=1)).told

    assert told.seen[ENTRY.identity].partition.records == 200
    assert told.slots[after.slot].time_ms == 1
    assert told.sample_of(ENTRY) == sample(ENTRY, time_ms=1)


def test_a_report_is_as_old_as_its_record_whatever_the_clock_of_its_owner_says() -> None:
    told = Told()
    for second in range(10):
        there_ms = NOW + (3_600 if second < 5 else -900) * 1_000 + second * 1_000
        written = snapshot(report(ENTRY, records=second * 10), time_ms=there_ms)
        told.apply(ControlKind.PROGRESS, *progress.encode(written), NOW + second * 1_000)

    assert told.seen[ENTRY.identity].snapshot.time_ms == NOW + 9_000
    assert told.rate(ENTRY.identity, NOW + 9_000) == Rate(10.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("clock_ms", [NOW - 3_600_000, NOW, NOW + 3_600_000])
def test_a_sample_is_as_old_as_its_record_whatever_the_clock_of_lag_says(clock_ms: int) -> None:
    told = Told()
    told.apply(ControlKind.SAMPLES, *samples.encode(sample(ENTRY, time_ms=clock_ms)), NOW)

    assert told.sample_of(ENTRY) == sample(ENTRY, time_ms=NOW)


@pytest.mark.parametrize("slot", [ENTRY.slot, SlotNumber(4)])
def test_of_two_instances_of_lag_the_one_that_watches_its_slot_now_is_believed(
    slot: SlotNumber,
) -> None:
    told = Told()
    before = sample(ENTRY, slot=slot, time_ms=NOW + 3_600_000)
    for said in (before, sample(ENTRY, verdict=Verdict.STUCK)):
        told.apply(ControlKind.SAMPLES, *samples.encode(said), NOW)
    if slot != ENTRY.slot:  # the order of two partitions of a topic says nothing
        told.apply(ControlKind.SAMPLES, *samples.encode(before), NOW)

    assert told.sample_of(ENTRY) == sample(ENTRY, time_ms=NOW, verdict=Verdict.STUCK)


def test_our_clock_set_back_begins_the_rate_anew() -> None:
    told = Told()
    for second, came_ms in enumerate([NOW, NOW + 5_000, 1_000, 6_000]):
        written = snapshot(report(ENTRY, records=second * 100))
        told.apply(ControlKind.PROGRESS, *progress.encode(written), came_ms)

    assert told.rate(ENTRY.identity, 6_000) == Rate(20.0, 0.0, 0.0, 0.0)


def test_an_older_report_or_sample_of_another_slot_changes_nothing() -> None:
    new, old = snapshot(report(ENTRY, records=2)), snapshot(report(ENTRY), slot=4, time_ms=1)
    moved = sample(ENTRY, slot=SlotNumber(4), time_ms=1)
    told = fleet([ENTRY], new, old, sample(ENTRY), moved).told

    assert told.seen[ENTRY.identity].partition.records == 2
    assert told.sample_of(ENTRY) == sample(ENTRY)


def test_a_partition_that_moved_to_another_slot_is_known_by_its_newest_report() -> None:
    there = snapshot(report(ENTRY, records=200), slot=4, time_ms=NOW - 100)
    told = fleet([ENTRY], snapshot(report(ENTRY)), there, snapshot(report(ENTRY))).told

    assert told.seen[ENTRY.identity].snapshot.slot == 4


@pytest.mark.parametrize(
    "kind", [ControlKind.PROGRESS, ControlKind.SAMPLES, ControlKind.EVENTS, ControlKind.REPORTS]
)
def test_what_cannot_be_read_is_counted_and_changes_nothing(kind: ControlKind) -> None:
    told = Told()

    told.apply(kind, b"\xff", b'{"v": 99}')

    assert told == Told(skipped=told.skipped)
    assert dict(told.skipped) == {kind: 1}


def test_only_the_last_events_and_the_last_report_of_a_key_are_kept() -> None:
    told = fleet([], *(Event(kind="gap", time_ms=n, writer="w") for n in range(5_001))).told
    for found in (1, 2):
        told.apply(ControlKind.REPORTS, *reports.encode(Report("slo", ("a->b", "t"), {"n": found})))
    told.apply(ControlKind.REPORTS, b'["slo"]', None)  # nothing to show, and nothing wrong
    told.apply(ControlKind.POSITIONS, *progress.encode(snapshot()))

    assert (len(told.events), told.events[0].time_ms) == (MOST_EVENTS, 1)
    assert told.reports == {("slo", "a->b", "t"): Report("slo", ("a->b", "t"), {"n": 2})}
    assert not told.skipped


def test_of_reports_of_many_windows_only_the_newest_of_a_topic_is_kept() -> None:
    told = Told()
    for window in range(100):
        made = Report("slo", ("a->b", "t", window), {"n": window})
        told.apply(ControlKind.REPORTS, *reports.encode(made))
    told.apply(ControlKind.REPORTS, b'["slo","a->b","t",7]', None)

    assert list(told.reports.values()) == [Report("slo", ("a->b", "t", 99), {"n": 99})]

    told.apply(ControlKind.REPORTS, b'["slo","a->b","t",99]', None)
    assert told.reports == {}
    assert not told.skipped


def test_sampled_batches_are_no_snapshot_and_nothing_that_was_skipped() -> None:
    told = Told()

    told.apply(ControlKind.PROGRESS, *traces.encode(SlotNumber(0), []))

    assert told == Told()


def test_a_position_that_is_put_back_after_it_was_lost_is_no_progress() -> None:
    nowhere = {"next_source": SourceOffset(0), "fault": "position-lost before the first record: x"}
    first = snapshot(report(ENTRY, **nowhere, records=0), time_ms=NOW - 9_000)
    second = snapshot(report(ENTRY), time_ms=NOW - 5_000)
    third = snapshot(report(ENTRY), time_ms=NOW - 1_000)

    assert fleet([ENTRY], first, second).told.rate(ENTRY.identity, NOW) is None
    assert fleet([ENTRY], first, second, third).told.rate(ENTRY.identity, NOW) == Rate(
        0.0, 0.0, 0.0, 0.0
    )


def test_a_partition_that_is_gone_keeps_no_other_one_in_memory() -> None:
    gone = entry(1)
    told = fleet([ENTRY, gone], snapshot(report(ENTRY), report(gone)), snapshot(report(ENTRY))).told

    assert told.seen[gone.identity].partition.next_source == 100
    assert told.seen[gone.identity].snapshot.partitions == ()
