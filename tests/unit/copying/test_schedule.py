from __future__ import annotations

import pytest

from mirrorfleet.copying.schedule import (
    CALM_S,
    CommitPolicy,
    Depth,
    FetchWindow,
    MarkerShare,
    Setbacks,
    backoff_s,
    busy_for,
    commit_interval,
    may_close,
    must_close,
)

POLICY = CommitPolicy()


@pytest.mark.parametrize(
    ("markers", "seconds"),
    [
        pytest.param(3, 0.015, id="one partition commits every 15 ms"),
        pytest.param(100, 0.050, id="100 markers take 50 ms of a budget of 2,000 a second"),
        pytest.param(1_032, 0.516, id="1,000 partitions in 16 slots commit about twice a second"),
        pytest.param(50_000, 1.0, id="never longer than a second"),
    ],
)
def test_the_commit_interval_comes_from_the_marker_budget(markers: float, seconds: float) -> None:
    assert commit_interval(markers, POLICY) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("overhead_s", "seconds"),
    [
        pytest.param(0.02, 0.2, id="a quick target commits five times a second"),
        pytest.param(0.6, 1.2, id="a slow one twice as long as a commit costs"),
        pytest.param(9.0, 2.5, id="never so long that its time-out is near"),
    ],
)
def test_a_slow_target_is_asked_for_fewer_and_larger_commits(
    overhead_s: float, seconds: float
) -> None:
    assert busy_for(overhead_s, POLICY) == pytest.approx(seconds)


def test_markers_of_a_commit_count_the_control_partitions() -> None:
    share = MarkerShare()
    share.committed(0, 8)
    share.committed(1, 8)

    assert share.per_round == 20.0


def test_an_idle_slot_has_no_share_of_the_markers() -> None:
    share = MarkerShare()
    share.committed(0, 8)
    share.idle(0)

    assert share.per_round == 0.0


def test_a_transaction_with_nothing_left_to_send_ends_after_the_interval() -> None:
    assert not may_close(0.009, 0.010)
    assert may_close(0.010, 0.010)


def test_a_busy_transaction_ends_by_age() -> None:
    assert not must_close(0.1, 0.010, POLICY)
    assert must_close(0.2, 0.010, POLICY)


def test_an_abort_halves_the_depth_and_commits_bring_it_back() -> None:
    depth = Depth(16)
    depth.aborted()
    assert depth.limit == 8
    for _ in range(10):
        depth.committed()
    assert depth.limit == 16


def test_setbacks_in_a_row_wait_longer_until_data_is_committed_or_a_while_was_calm() -> None:
    setbacks = Setbacks()

    def waits(*times: float) -> list[float]:
        found = []
        for now in times:
            setbacks.another(now)
            found.append(setbacks.wait_s(1.0))
        return found

    assert waits(100.0, 101.0, 103.0) == [0.1, 0.2, 0.4]
    setbacks.over()
    assert setbacks.wait_s(1.0) == 0.0
    assert waits(104.0, 105.0) == [0.1, 0.2]
    assert waits(105.0 + CALM_S, 106.0 + 2 * CALM_S) == [0.4, 0.1]


def test_the_depth_never_falls_below_one() -> None:
    depth = Depth(2)
    for _ in range(5):
        depth.aborted()
    assert depth.limit == 1


def test_a_pipe_is_filled_up_from_three_quarters_and_a_short_one_when_it_is_empty() -> None:
    assert Depth(16).refill == 12
    assert Depth(2).refill == 1
    assert Depth(1).refill == 0


def test_full_answers_double_the_fetch_window_and_small_ones_halve_it() -> None:
    window = FetchWindow(256, 2_048)
    window.answered(256, 0.1)
    window.answered(512, 0.1)
    assert window.size == 1_024
    window.answered(10, 0.1)
    assert window.size == 512


def test_a_source_that_is_slow_is_asked_for_less_at_once() -> None:
    window = FetchWindow(256, 2_048)
    window.answered(256, 0.1)
    window.answered(512, 2.1)
    assert window.size == 256
    window.answered(256, 2.1)
    assert window.size == 256


def test_the_backoff_grows_to_five_seconds_and_keeps_half_of_it_without_luck() -> None:
    assert backoff_s(0, 1.0) == pytest.approx(0.05)
    assert backoff_s(20, 1.0) == pytest.approx(5.0)
    assert backoff_s(20, 0.0) == pytest.approx(2.5)
