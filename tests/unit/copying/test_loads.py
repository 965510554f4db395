"""Loads are averages of what comes: neither what had waited before nor a short burst."""

from __future__ import annotations

from mirrorfleet.copying.loads import CAUGHT_UP_S, LoadMeter
from mirrorfleet.core.ids import SlotNumber

SLOT = SlotNumber(3)


def caught_up(copied: int = 0) -> LoadMeter:
    """A meter of a slot that came long enough before time 0."""
    meter = LoadMeter()
    meter.sample({SLOT: 0}, -CAUGHT_UP_S)
    meter.sample({SLOT: copied}, 0.0)
    return meter


def test_a_slot_that_was_watched_for_a_moment_says_nothing_yet() -> None:
    meter = caught_up()
    meter.sample({SLOT: 9_000}, 9.0)
    assert meter.loads() == {}
    meter.sample({SLOT: 10_000}, 10.0)
    assert meter.loads() == {SLOT: 1_000}


def test_what_had_waited_for_an_owner_is_no_load() -> None:
    meter = caught_up(copied=9_000_000)
    for second in range(1, 11):
        assert meter.loads() == {}
        meter.sample({SLOT: 9_000_000 + 1_000 * second}, float(second))
    assert meter.loads() == {SLOT: 1_000}


def test_a_burst_counts_little_and_a_lasting_change_counts() -> None:
    meter = caught_up()
    for second in range(61):
        meter.sample({SLOT: 1_000 * second}, float(second))
    meter.sample({SLOT: 60_000 + 31_000}, 61.0)
    assert meter.loads() == {SLOT: 2_000}
    copied = 91_000
    for second in range(62, 182):
        copied += 5_000
        meter.sample({SLOT: copied}, float(second))
    assert 4_900 < meter.loads()[SLOT] <= 5_000


def test_a_slot_that_went_and_came_again_is_measured_anew() -> None:
    meter = caught_up()
    meter.sample({SLOT: 5_000}, 5.0)
    meter.sample({}, 6.0)
    meter.sample({SLOT: 50_000}, 10.0)
    meter.sample({SLOT: 80_000}, 25.0)
    assert meter.loads() == {}
    meter.sample({SLOT: 81_000}, 35.0)
    assert meter.loads() == {SLOT: 100}
