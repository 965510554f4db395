"""How many far connections are opened, and what is reserved of what they are asked for."""

from __future__ import annotations

from mirrorfleet.copying.fan import Appetite, Booking, Fan


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


def test_where_memory_is_full_connections_are_doubled_as_long_as_pieces_come_somewhat_sooner() -> (
    None
):
    fan = Fan(100, 0.010)
    counts = [fan.count]
    for rate in (10.0, 12.0, 13.0, 13.3, 1.0):
        fan.crowded(rate)
        counts.append(fan.count)

    assert counts == [4, 8, 16, 16, 32, 32]


def test_answers_are_slow_from_two_and_a_half_round_trips_on() -> None:
    found = []
    for took_s in (0.24, 0.26):
        booking = Booking(0.1)
        for _ in range(80):
            booking.timed(took_s)
        found.append(booking.is_slow)
    assert found == [False, True]


def test_who_has_nothing_to_ask_for_wants_what_it_had_use_for_and_who_has_no_room_all() -> None:
    wishes = []
    for is_full in (False, True):
        appetite = Appetite()
        appetite.fetches(3)
        appetite.found_nothing()
        appetite.is_full = is_full
        appetite.looked(waits=False)
        wishes.append((appetite.has_nothing, appetite.wish(16, 1)))
        appetite.served()
        appetite.looked(waits=False)
        wishes.append((appetite.has_nothing, appetite.wish(16, 1)))

    assert wishes == [(True, 3), (False, 16), (False, 16), (False, 16)]


def test_who_waits_still_has_nothing_to_ask_for_and_one_second_does_not_count_for_the_next() -> (
    None
):
    appetite = Appetite()
    appetite.fetches(9)
    appetite.wish(16, 2)
    appetite.looked(waits=True)
    assert (appetite.has_nothing, appetite.wish(16, 0)) == (True, 2)
