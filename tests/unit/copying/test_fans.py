"""How many far connections are opened, and what is reserved of what they are asked for."""

from __future__ import annotations

from mirrorfleet.copying.stripes import Booking, Fan


def test_of_quick_answers_two_thirds_are_reserved_and_of_slow_ones_all() -> None:
    booking = Booking(0.1)
    assert (booking.of(900), booking.within(600)) == (600, 900)
    for _ in range(40):
        booking.timed(0.6)
    assert (booking.of(900), booking.within(600)) == (900, 600)
    for _ in range(40):
        booking.timed(0.2)
    assert booking.of(900) == 600


def test_connections_are_doubled_as_long_as_that_brings_more_and_halved_when_it_got_worse() -> None:
    fan = Fan(16, 0.010)
    counts = [fan.count]
    for rate in (10.0, 20.0, 21.0, 21.0, 9.0, 12.0):
        fan.measured(rate)
        counts.append(fan.count)

    assert counts == [4, 8, 16, 16, 16, 8, 16]


def test_the_further_away_the_source_is_the_more_connections_are_opened_at_once() -> None:
    assert [Fan(48, rtt_s).count for rtt_s in (0.006, 0.020, 0.050, 0.100, 0.400)] == [
        4,
        7,
        17,
        33,
        48,
    ]
    assert Fan(1, 0.1).count == 1
