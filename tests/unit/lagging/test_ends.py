"""When records became readable, from samples of the end, against the moments themselves."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.lagging.ends import MOST_POINTS, TOLERANCE_MS, EndHistory

GAPS = st.lists(
    st.one_of(st.just(0), st.integers(1, 50), st.integers(1_000, 9_000)), min_size=1, max_size=120
)
PAUSES = st.lists(st.integers(1, 3_000), min_size=1, max_size=60)


@given(gaps=GAPS, pauses=PAUSES, forget=st.integers(0, 120))
def test_a_record_came_between_the_looks_that_did_not_and_did_see_it(
    gaps: list[int], pauses: list[int], forget: int
) -> None:
    appended = list(accumulate(gaps))  # the moment of each record
    looks = list(accumulate(pauses))
    history = EndHistory()
    for at_ms in looks:
        history.seen(bisect_right(appended, at_ms), at_ms)
    first, end = bisect_right(appended, looks[0]), bisect_right(appended, looks[-1])
    history.forget_below(min(forget, end))

    for offset in range(max(first, min(forget, end)), end):
        since = history.readable_since(offset)
        before = max(at for at in looks if at < appended[offset])
        after = min(at for at in looks if at >= appended[offset])
        assert since is not None
        assert before - TOLERANCE_MS <= since <= after + TOLERANCE_MS
    assert history.readable_since(end) is None
    assert (history.end, history.seen_ms) == (end, looks[-1])


def test_a_steady_pace_costs_two_points() -> None:
    history = EndHistory()
    for second in range(1_000):
        history.seen(second * 100, second * 1_000 + second % 7)

    assert len(history) == 2
    assert abs((history.readable_since(50_000) or 0) - 500_000) <= TOLERANCE_MS


def test_a_record_after_a_long_pause_came_in_the_last_interval() -> None:
    history = EndHistory()
    for at_ms in range(0, 60_000, 1_000):
        history.seen(10, at_ms)
    history.seen(11, 60_000)

    assert history.readable_since(10) == 59_500


def test_what_came_before_the_first_look_or_not_yet_is_not_known() -> None:
    history = EndHistory()
    history.seen(100, 1_000)
    history.seen(110, 2_000)

    assert history.readable_since(99) is None
    assert history.readable_since(100) == 1_050
    assert history.readable_since(110) is None


def test_an_end_that_goes_back_begins_anew() -> None:
    history = EndHistory()
    history.seen(100, 1_000)
    history.seen(200, 2_000)
    history.seen(50, 3_000)
    history.seen(60, 4_000)

    assert history.readable_since(150) is None
    assert history.readable_since(50) == 3_050


def test_a_clock_that_was_set_back_begins_anew_and_a_late_answer_is_left_alone() -> None:
    history = EndHistory()
    history.seen(100, 100_000)
    history.seen(110, 99_000)
    assert history.end == 100

    history.seen(120, 10_000)
    assert (history.end, history.seen_ms) == (120, 10_000)


def test_an_unsteady_pace_for_days_keeps_to_its_bound_and_to_the_position() -> None:
    history = EndHistory()
    for minute in range(5_000):
        history.seen(minute * 20 + minute % 3 * 7, minute * 60_000 + minute % 5 * 9_000)

    assert len(history) <= MOST_POINTS
    assert history.readable_since(0) is not None


def test_what_an_earlier_process_knew_of_the_position_holds() -> None:
    history = EndHistory()
    history.restore(500, 7_000)
    history.seen(900, 60_000)
    history.seen(950, 61_000)

    assert history.readable_since(500) == 7_000
    assert 59_000 < (history.readable_since(899) or 0) <= 60_000
