"""The lag of a partition, against a source and a mirror whose every moment is known."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.progress import BEFORE_THE_FIRST
from mirrorfleet.records.samples import FOREVER_MS, Verdict
from tests.unit.lagging.making import entry, said

LIMITS = Limits()
SECOND = 1_000


def watched(
    ends: dict[int, int], positions: dict[int, int], *, retention_ms: int | None = None
) -> PartitionLag:
    """Ends and positions by the second at which they were seen."""
    lag = PartitionLag(entry(retention_ms=retention_ms))
    for second in sorted({*ends, *positions}):
        if second in ends:
            lag.end_seen(ends[second], second * SECOND)
        if second in positions:
            at_ms = second * SECOND
            lag.reported(said(positions[second], moved_ms=at_ms), at_ms, at_ms)
    return lag


@given(
    gaps=st.lists(st.one_of(st.just(0), st.integers(1, 800)), min_size=1, max_size=200),
    speeds=st.lists(st.sampled_from((0, 0, 3, 20, 1_000)), min_size=12, max_size=40),
    phase_ms=st.integers(0, 999),
)
def test_time_lag_is_within_a_second_of_the_truth_whatever_the_mirror_does(
    gaps: list[int], speeds: list[int], phase_ms: int
) -> None:
    appended = [1_500 + at for at in accumulate(gaps)]
    lag, position = PartitionLag(entry()), 0
    lag.end_seen(0, 1_000)
    for second, speed in enumerate(speeds, start=2):
        now_ms = second * SECOND
        seen_ms = now_ms - phase_ms
        lag.end_seen(bisect_right(appended, seen_ms), seen_ms)
        position = min(position + speed, bisect_right(appended, now_ms))
        lag.reported(said(position, moved_ms=now_ms), now_ms, now_ms)

        standing = lag.look(now_ms + 300, LIMITS)

        waiting = position < len(appended) and appended[position] <= now_ms
        truth_ms = now_ms - appended[position] if waiting else 0
        assert standing.as_of_ms == now_ms
        assert standing.time_lag_ms is not None
        assert abs(standing.time_lag_ms - truth_ms) <= SECOND + 100


def test_a_mirror_that_falls_silent_lags_more_and_more() -> None:
    lag = watched({0: 0, 1: 100, 2: 200, 3: 300}, {1: 100, 2: 150})
    lag.end_seen(2_000, 20_000)

    standing = lag.look(20_000, LIMITS)

    assert standing.verdict is Verdict.STOPPED
    assert standing.rule == "STOP: its worker has been silent for 18s"
    assert (standing.lag_records, standing.time_lag_ms) == (1_850, 20_000 - 1_505)


def test_an_idle_source_is_no_lag() -> None:
    lag = watched({0: 100, 1: 100, 40: 100}, {1: 100, 40: 100})

    standing = lag.look(40_100, LIMITS)

    assert (standing.lag_records, standing.time_lag_ms) == (0, 0)
    assert (standing.verdict, standing.rule) == (
        Verdict.IDLE,
        "all copied; the source is idle for 40s",
    )


def test_a_source_that_is_not_seen_any_more_is_unknown_and_never_0() -> None:
    lag = watched({0: 100, 1: 100}, {1: 100, 30: 100})

    standing = lag.look(30_000, LIMITS)

    assert (standing.lag_records, standing.time_lag_ms) == (None, None)
    assert (standing.verdict, standing.rule) == (
        Verdict.UNKNOWN,
        "the source's end has not been seen for 29s",
    )


def test_an_end_that_was_just_not_seen_takes_the_lag_away_and_leaves_the_verdict() -> None:
    lag = watched({0: 100, 1: 100}, {1: 100})
    told = lag.sample(lag.look(1_000, LIMITS), None)
    lag.restored(told)
    lag.reported(said(100), 8_000, 8_000)

    standing = lag.look(8_000, LIMITS)

    assert standing.time_lag_ms is None
    assert (standing.verdict, standing.rule) == (
        Verdict.OK,
        "the source's end was last seen 7s ago",
    )


def test_what_waited_before_the_source_went_out_of_sight_still_grows_old() -> None:
    lag = watched({0: 100, 1: 200}, {1: 100, 30: 100})

    standing = lag.look(30_000, LIMITS)

    assert standing.lag_records is None
    assert standing.time_lag_ms == 30_000 - 5


def test_a_source_that_ends_below_the_position_is_unknown() -> None:
    lag = watched({0: 100, 1: 100, 3: 40}, {1: 100, 2: 100})

    standing = lag.look(3_100, LIMITS)

    assert standing.time_lag_ms is None
    assert standing.rule == "the source ends 60 offsets below the position: its log was cut"


@pytest.mark.parametrize("ahead_ms", [-2_500, 0, 3_600_000])
@pytest.mark.parametrize("said_after_ms", [-400, 400])
def test_a_source_that_was_cut_is_no_lag_0_whoever_spoke_last_and_by_whatever_clock(
    ahead_ms: int, said_after_ms: int
) -> None:
    lag = PartitionLag(entry())
    for second in range(1, 31):
        now_ms = second * SECOND
        came_ms = now_ms + said_after_ms
        for at_ms in sorted({now_ms, came_ms}):
            if at_ms == now_ms:
                lag.end_seen(5_000 if second < 10 else 10, now_ms)
            else:
                lag.reported(said(5_000), came_ms + ahead_ms, came_ms)
        standing = lag.look(now_ms + 500, LIMITS)

        if second < 10:
            assert (standing.lag_records, standing.time_lag_ms) == (0, 0)
        else:
            assert (standing.lag_records, standing.time_lag_ms) == (None, None)
            assert standing.rule == (
                "the source ends 4990 offsets below the position: its log was cut"
            )


@pytest.mark.parametrize("ahead_ms", [-2_500, 0, 3_600_000])
def test_a_busy_partition_told_of_after_each_look_at_the_end_has_no_lag(ahead_ms: int) -> None:
    lag = PartitionLag(entry())
    for second in range(1, 31):
        now_ms = second * SECOND
        lag.end_seen(second * 100, now_ms)
        lag.reported(said(second * 100 + 40), now_ms + 400 + ahead_ms, now_ms + 400)

        assert lag.look(now_ms + 500, LIMITS).lag_records == 0


def test_an_end_that_was_seen_before_its_look_was_over_is_no_cut() -> None:
    """A broker that is away makes a look 3 s long; what others said at its begin is that old."""
    lag = PartitionLag(entry())
    lag.end_seen(100, 1_000)
    lag.reported(said(101), 2_000, 2_000)  # one more came, was copied, and told of

    lag.end_seen(100, 3_400)

    assert lag.look(3_500, LIMITS).lag_records == 0


def test_our_clock_set_back_hides_a_cut_source_for_a_moment_only() -> None:
    lag = PartitionLag(entry())
    lag.end_seen(5_000, 3_600_000)
    lag.reported(said(5_000), 3_600_100, 3_600_100)
    for second in range(1, 10):
        lag.end_seen(10, second * SECOND)

    assert lag.look(9_100, LIMITS).lag_records is None


def test_a_position_newer_than_the_end_that_was_seen_is_no_lag() -> None:
    lag = watched({0: 100, 1: 100}, {1: 100, 2: 180})

    assert lag.look(2_100, LIMITS).time_lag_ms == 0


def test_a_fault_is_told_with_its_reason_and_the_lag_grows() -> None:
    lag = watched({0: 0, 1: 10, 2: 20}, {1: 5})
    lag.reported(
        said(5, state="faulted", fault="record-too-large at source offset 5"), 2_000, 2_000
    )

    standing = lag.look(2_100, LIMITS)

    assert standing.verdict is Verdict.FAULTED
    assert standing.rule == "the mirror stopped it: record-too-large at source offset 5"
    assert standing.time_lag_ms == 2_000 - 550


def test_a_worker_that_is_alive_and_does_not_move_is_stuck() -> None:
    seconds = range(1, 25)
    lag = watched({s: 100 + s * 10 for s in seconds}, dict.fromkeys(seconds, 120))

    standing = lag.look(24_100, LIMITS)

    assert standing.verdict is Verdict.STUCK
    assert standing.rule == "STALL: the position has not moved for 21s while 220 offsets wait"


def behind(copied_each_second: int) -> PartitionLag:
    """100 records a second come; a minute of them waits at the begin."""
    lag = PartitionLag(entry())
    for second in range(1, 85):
        lag.end_seen(second * 100, second * SECOND)
        if second >= 60:
            at_ms = second * SECOND
            lag.reported(said((second - 60) * copied_each_second + 100), at_ms, at_ms)
            lag.look(second * SECOND, LIMITS)
    return lag


def test_backlog_that_waits_for_a_more_urgent_one_is_not_stuck_nor_when_its_turn_has_come() -> None:
    lag = PartitionLag(entry())
    verdicts = []
    for second in range(130):
        lag.end_seen(1_000, second * SECOND)
        state = "waiting" if 10 <= second < 120 else "catch-up"
        told = said(10 if second < 125 else 500, end=1_000, state=state)
        lag.reported(told, second * SECOND, second * SECOND)
        verdicts.append(lag.look(second * SECOND, LIMITS))

    assert not {each.verdict for each in verdicts} & {Verdict.STUCK, Verdict.STOPPED}
    assert verdicts[100].verdict is Verdict.CATCHING_UP
    assert verdicts[100].rule.endswith("its worker has a more urgent backlog")


def test_what_waits_for_its_throttle_is_not_stuck_until_it_stands_still_without_one() -> None:
    lag = PartitionLag(entry())
    verdicts = []
    for second in range(61):
        now_ms = second * SECOND
        lag.end_seen(1_000, now_ms)
        state = "throttled" if 2 <= second < 42 else "catch-up"
        lag.reported(said(10, end=1_000, state=state), now_ms, now_ms)
        verdicts.append(lag.look(now_ms, LIMITS).verdict)

    assert not {Verdict.STUCK, Verdict.STOPPED} & set(verdicts[:56])
    assert verdicts[60] is Verdict.STUCK


def test_behind_and_faster_than_the_source_is_catching_up_with_an_eta() -> None:
    lag = behind(300)
    standing = lag.look(84_000, LIMITS)

    assert standing.verdict is Verdict.CATCHING_UP
    assert standing.rule == "10s behind, over the 10s that are fine, and it shrinks"
    assert standing.lag_records == 8_400 - 7_300
    assert abs((lag.eta_ms or 0) - 5_500) < 100


def test_behind_and_no_faster_than_the_source_is_behind_for_ever() -> None:
    lag = behind(100)
    standing = lag.look(84_000, LIMITS)

    assert standing.verdict is Verdict.BEHIND
    assert standing.rule == "WARN: 58s behind, over the 10s that are fine, and it does not shrink"
    assert lag.eta_ms is None


def test_older_than_our_samples_the_timestamp_in_the_mirrors_hand_is_taken() -> None:
    lag = PartitionLag(entry())
    lag.end_seen(9_000, 100_000)
    lag.reported(said(10, oldest_ms=40_000), 100_000, 100_000)
    assert lag.look(100_100, LIMITS).time_lag_ms == 60_000

    lag.reported(said(20), 101_000, 101_000)
    standing = lag.look(101_100, LIMITS)
    assert (standing.time_lag_ms, standing.lag_records) == (None, 8_980)
    assert standing.rule.startswith("8980 offsets behind")


def test_headroom_is_the_retention_that_is_left_for_the_next_record() -> None:
    hour = 3_600_000
    lag = watched({0: 0, 1: 100, 2: 100}, {2: 0}, retention_ms=hour)
    lag.look(2_000, LIMITS)
    assert lag.headroom_ms == hour - (2_000 - 5)

    forever = watched({0: 0, 1: 100}, {1: 0}, retention_ms=-1)
    forever.look(1_000, LIMITS)
    assert forever.headroom_ms == FOREVER_MS


def test_headroom_goes_by_the_date_of_the_record_where_that_is_older() -> None:
    """By which brokers delete it: of what was loaded from elsewhere it is long ago."""
    hour = 3_600_000
    lag = watched({0: 0, 1: 100, 2: 100}, {2: 0}, retention_ms=hour)
    lag.reported(said(0, oldest_ms=2_000 - hour // 2), 2_000, 2_000)
    lag.look(2_000, LIMITS)

    assert lag.headroom_ms == hour // 2


def test_a_log_start_that_comes_nearer_shortens_the_headroom() -> None:
    lag = watched({0: 0, 1: 1_000, 3: 1_000}, {}, retention_ms=-1)
    lag.reported(said(500, log_start=0), 1_000, 1_000)
    lag.reported(said(500, log_start=100), 2_000, 2_000)
    lag.look(2_000, LIMITS)

    assert lag.headroom_ms == 4_000


@pytest.mark.parametrize("state", ["waiting", "unreachable", "faulted", ""])
def test_what_nobody_fetches_comes_nearer_to_its_end_all_the_same(state: str) -> None:
    """Its mirror tells the begin of its last answer again, or nothing at all."""
    lag = watched({0: 0, 1: 1_000_000}, {}, retention_ms=-1)
    lag.reported(said(500_000, log_start=0), 1_000, 1_000)
    lag.reported(said(500_000, log_start=100), 2_000, 2_000)
    lag.look(2_000, LIMITS)
    before = lag.headroom_ms
    half_an_hour = 1_800_000
    for second in range(3, 1_803) if state else ():
        at = second * 1_000
        begin = 100 if second < 900 else -1  # by an owner that began then
        lag.reported(said(500_000, log_start=begin, state=state), at, at)
    lag.look(2_000 + half_an_hour, LIMITS)

    assert before is not None
    assert before > 2 * half_an_hour
    assert lag.headroom_ms == before - half_an_hour


def test_a_silent_worker_copies_nothing_a_second() -> None:
    lag = watched({0: 0, 1: 100, 2: 200}, {1: 100, 2: 200})
    assert lag.sample(lag.look(2_000, LIMITS), None).rate_records_s == 100

    assert lag.sample(lag.look(30_000, LIMITS), None).rate_records_s == 0


def test_a_backlog_stamped_by_a_clock_ahead_is_as_old_as_our_first_look_at_least() -> None:
    lag = watched({0: 1_000, 60: 2_000}, {})
    lag.reported(said(100, oldest_ms=3_600_000), 60_000, 60_000)

    assert lag.look(60_000, LIMITS).time_lag_ms == 60_000
    lag.reported(said(100, oldest_ms=-40_000), 60_500, 60_500)
    assert lag.look(60_500, LIMITS).time_lag_ms == 100_500


def test_a_record_that_came_after_the_snapshot_was_no_lag_then() -> None:
    lag = watched({0: 0, 1: 100}, {1: 100})
    lag.end_seen(100, 2_000)
    lag.end_seen(200, 3_000)

    standing = lag.look(3_000, LIMITS)

    assert (standing.as_of_ms, standing.lag_records, standing.time_lag_ms) == (1_000, 0, 0)


def test_a_paused_partition_is_stopped_by_will() -> None:
    lag = watched({0: 0, 1: 100}, {1: 90})
    lag.entry = replace(lag.entry, state=lag.entry.state.PAUSED)

    standing = lag.look(1_000, LIMITS)

    assert (standing.verdict, standing.rule) == (Verdict.STOPPED, "paused in the catalog")
    assert lag.sample(standing, 7).next_source == SourceOffset(90)


def test_one_that_has_no_position_has_no_lag_and_its_first_one_is_no_progress() -> None:
    """Positions that were lost are put back: from 0, which was none, a log was not copied."""
    lag = PartitionLag(entry())
    for second in range(10):
        lag.end_seen(10**9, second * SECOND)
        fault = f"position-lost {BEFORE_THE_FIRST}: it is gone"
        lag.reported(said(0, state="faulted", fault=fault), second * SECOND, second * SECOND)
        standing = lag.look(second * SECOND, LIMITS)
    assert (standing.verdict, standing.lag_records) == (Verdict.FAULTED, None)

    for second in range(10, 20):
        lag.end_seen(10**9, second * SECOND)
        lag.reported(said(10**8 + second), second * SECOND, second * SECOND)
        lag.look(second * SECOND, LIMITS)
    assert (lag.eta_ms or FOREVER_MS) > 3_600_000
