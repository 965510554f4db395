"""Loads are averages of what comes: neither what had waited before nor a short burst."""

from __future__ import annotations

from mirrorfleet.copying.loads import CAUGHT_UP_S, LoadMeter
from mirrorfleet.core.ids import SlotNumber
from tests.unit.copying.making import identity

SLOT = SlotNumber(3)
ONE, OTHER = identity(0), identity(1)


def caught_up(copied: int = 0) -> LoadMeter:
    """A meter of a slot that came long enough before time 0."""
    meter = LoadMeter()
    meter.sample({SLOT: {ONE: 0}}, -CAUGHT_UP_S)
    meter.sample({SLOT: {ONE: copied}}, 0.0)
    return meter


def test_a_slot_that_was_watched_for_a_moment_says_nothing_yet() -> None:
    meter = caught_up()
    meter.sample({SLOT: {ONE: 9_000}}, 9.0)
    assert meter.loads() == {}
    meter.sample({SLOT: {ONE: 10_000}}, 10.0)
    assert meter.loads() == {SLOT: 1_000}


def test_what_had_waited_for_an_owner_is_no_load() -> None:
    meter = caught_up(copied=9_000_000)
    for second in range(1, 11):
        assert meter.loads() == {}
        meter.sample({SLOT: {ONE: 9_000_000 + 1_000 * second}}, float(second))
    assert meter.loads() == {SLOT: 1_000}


def test_a_burst_counts_little_and_a_lasting_change_counts() -> None:
    meter = caught_up()
    for second in range(61):
        meter.sample({SLOT: {ONE: 1_000 * second}}, float(second))
    meter.sample({SLOT: {ONE: 60_000 + 31_000}}, 61.0)
    assert meter.loads() == {SLOT: 2_000}
    copied = 91_000
    for second in range(62, 182):
        copied += 5_000
        meter.sample({SLOT: {ONE: copied}}, float(second))
    assert 4_900 < meter.loads()[SLOT] <= 5_000


def test_a_slot_that_went_and_came_again_is_measured_anew() -> None:
    meter = caught_up()
    meter.sample({SLOT: {ONE: 5_000}}, 5.0)
    meter.sample({}, 6.0)
    meter.sample({SLOT: {ONE: 50_000}}, 10.0)
    meter.sample({SLOT: {ONE: 80_000}}, 25.0)
    assert meter.loads() == {}
    meter.sample({SLOT: {ONE: 81_000}}, 35.0)
    assert meter.loads() == {SLOT: 100}


def lost(at: int) -> LoadMeter:
    """A meter of a slot of 1,000 bytes a second whose source falls silent at a second."""
    meter = caught_up()
    for second in range(1, at + 1):
        meter.sample({SLOT: {ONE: 1_000 * second}}, float(second), {SLOT: float(second)})
    return meter


def test_a_slot_whose_source_is_silent_keeps_the_load_that_it_had() -> None:
    meter = lost(40)
    for second in range(41, 641):
        meter.sample({SLOT: {ONE: 40_000}}, float(second), {SLOT: 40.0})
    assert meter.loads() == {SLOT: 1_000}


def test_what_waited_while_its_source_was_away_is_no_load() -> None:
    meter = lost(40)
    for second in range(41, 101):
        meter.sample({SLOT: {ONE: 40_000}}, float(second), {SLOT: 40.0})
    copied = 40_000
    for second in range(101, 131):
        copied += 20_000 if second < 105 else 1_000
        meter.sample({SLOT: {ONE: copied}}, float(second), {SLOT: float(second)})
        assert meter.loads() == {SLOT: 1_000}


def test_a_slot_that_has_nothing_to_copy_counts_less_and_less_while_its_source_answers() -> None:
    meter = lost(40)
    for second in range(41, 101):
        meter.sample({SLOT: {ONE: 40_000}}, float(second), {SLOT: float(second - second % 3)})
    assert 50 < meter.loads()[SLOT] < 200


def test_what_a_partition_copied_before_it_joined_the_slot_is_no_load() -> None:
    """As at the end of a quarantine: hundreds of gigabytes would come within a second."""
    meter = caught_up()
    for second in range(1, 31):
        meter.sample({SLOT: {ONE: 1_000 * second}}, float(second))
    meter.sample({SLOT: {ONE: 31_000, OTHER: 10**12}}, 31.0)
    assert meter.loads() == {SLOT: 1_000}
    for second in range(32, 302):
        meter.sample({SLOT: {ONE: 1_000 * second, OTHER: 10**12 + 3_000 * second}}, float(second))
    assert 3_900 < meter.loads()[SLOT] < 4_500
    meter.sample({SLOT: {ONE: 302_000}}, 302.0)
    assert 3_800 < meter.loads()[SLOT] < 4_500
