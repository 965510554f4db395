"""A stall is the time in which the source had more to show than its copy."""

from __future__ import annotations

from tests.judge.reading import At
from tests.judge.stalls import Line, Span, Stall, longest, silent, stalls, told, within

COPY = At("east.orders", 3)
ALL = Span(0, 10_000)


def line(source: list[int], copy: list[int]) -> Line:
    return Line(COPY, source, copy)


def test_a_stall_begins_when_the_source_shows_more_and_ends_when_the_copy_does() -> None:
    found = line([1_000, 2_000, 2_500, 5_000], [1_100, 4_700, 5_200])
    assert longest(found, ALL) == Stall(COPY, 2.7, 2_000)


def test_what_the_source_held_back_is_no_stall() -> None:
    found = line([1_000, 8_000], [1_100, 8_300])
    assert longest(found, ALL) == Stall(COPY, 0.3, 8_000)


def test_a_stall_outside_of_the_span_is_not_its_own() -> None:
    found = line([1_000, 5_000, 9_000], [3_000, 5_200, 9_900])
    assert longest(found, Span(3_500, 8_000)) == Stall(COPY, 0.2, 5_000)


def test_a_stall_that_reaches_into_the_span_counts_whole() -> None:
    found = line([1_000, 5_000], [3_000, 5_200])
    assert longest(found, Span(2_000, 2_500)) == Stall(COPY, 2.0, 1_000)


def test_a_copy_that_never_moves_again_stalls_to_the_end() -> None:
    found = line([1_000, 4_000, 6_000], [1_100])
    assert longest(found, ALL) == Stall(COPY, 6.0, 4_000)


def test_a_copy_that_nobody_made_stalls_from_the_first_record_on() -> None:
    assert longest(line([1_000], []), ALL) == Stall(COPY, 9.0, 1_000)


def test_the_longest_stall_is_told_first() -> None:
    short = Line(At("east.orders", 1), [1_000], [1_500])
    found = stalls([short, line([1_000], [4_000])], ALL)
    assert [stall.seconds for stall in found] == [3.0, 0.5]
    assert told("kill -9", found, 10) == (
        "kill -9: longest stall 3.00 s (east.orders-3), median 1.75 s of 2 partitions, limit 10 s"
    )


def test_a_span_has_as_its_own_what_began_in_it_up_to_its_end() -> None:
    found = line([1_000, 3_000, 6_000, 6_500, 9_000], [1_100, 5_000, 6_200, 9_900])
    of_its_own = within(found, Span(4_000, 8_000))
    assert of_its_own == line([6_000, 6_500], [1_100, 5_000, 6_200])
    assert longest(of_its_own, Span(4_000, 8_000)) == Stall(COPY, 1.5, 6_500)


def test_a_span_in_which_a_copy_stands_from_before_it_to_its_end_has_nothing_of_its_own() -> None:
    found = line([1_000, 3_000, 6_000], [1_100])
    assert longest(within(found, Span(4_000, 8_000)), Span(4_000, 8_000)).seconds == 0.0


def test_a_source_that_shows_nothing_in_a_span_is_silent() -> None:
    found = [line([1_000, 5_000], [1_100])]
    assert silent(found, Span(2_000, 4_000)) == [COPY]
    assert silent(found, Span(2_000, 5_000)) == []
