"""Loads are averages that begin with what is seen, and bursts pass."""

from __future__ import annotations

from mirrorfleet.copying.loads import LoadMeter
from mirrorfleet.core.ids import SlotNumber

SLOT = SlotNumber(3)


def test_a_slot_that_was_watched_for_a_moment_says_nothing_yet() -> None:
    meter = LoadMeter()
    meter.sample({SLOT: 0}, 0.0)
    meter.sample({SLOT: 9_000}, 9.0)
    assert meter.loads() == {}
    meter.sample({SLOT: 10_000}, 10.0)
    assert meter.loads() == {SLOT: 1_000}


def test_a_burst_counts_little_and_a_lasting_change_counts() -> None:
    meter = LoadMeter()
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
    meter = LoadMeter()
    meter.sample({SLOT: 0}, 0.0)
    meter.sample({}, 5.0)
    meter.sample({SLOT: 50_000}, 10.0)
    meter.sample({SLOT: 51_000}, 20.0)
    assert meter.loads() == {SLOT: 100}
