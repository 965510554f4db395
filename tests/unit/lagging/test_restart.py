"""What a process that begins anew takes from the last samples of an earlier one, and what not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import entry, said
from tests.unit.lagging.test_partition import LIMITS, SECOND, watched


@pytest.mark.parametrize("position", [100, 60])
def test_a_restart_does_not_take_a_source_out_of_sight_for_just_seen(position: int) -> None:
    before = watched({0: 0, 1: 100}, {1: position, 3_600: position})
    told = before.sample(before.look(3_600_000, LIMITS), None)
    assert (told.verdict, told.lag_records, told.source_end) == (Verdict.UNKNOWN, None, 100)

    after = PartitionLag(entry())
    after.restored(told)
    after.reported(said(position), 3_602_000, 3_602_000)
    standing = after.look(3_602_000, LIMITS)

    assert (standing.lag_records, standing.verdict) == (None, Verdict.UNKNOWN)


def test_a_restart_goes_on_from_the_last_sample() -> None:
    before = watched({0: 0, 1: 100, 2: 200, 20: 200}, {2: 150})
    told = before.sample(before.look(20_000, LIMITS), None)

    after = PartitionLag(entry())
    after.restored(told)
    after.reported(said(150, moved_ms=2_000), 2_000, 2_000)
    after.end_seen(400, 25_000)
    standing = after.look(25_000, LIMITS)

    assert standing.time_lag_ms == 25_000 - 1_505
    assert standing.verdict is Verdict.STOPPED
    # what came while nobody looked is taken to have come evenly
    after.reported(said(300), 25_500, 25_500)
    assert after.look(25_500, LIMITS).time_lag_ms == 25_500 - (20_000 + 2_512)


@pytest.mark.parametrize("seconds", [2, 40])
@pytest.mark.parametrize("has_end", [True, False])
def test_a_restart_does_not_take_a_source_that_was_cut_for_copied(
    seconds: int, *, has_end: bool
) -> None:
    before = watched({0: 100, 1: 100, 4: 50}, {1: 100, 4: 100})
    told = before.sample(before.look(4_100, LIMITS), None)
    assert (told.verdict, told.lag_records, told.source_end) == (Verdict.UNKNOWN, None, 50)
    now_ms = told.time_ms + seconds * SECOND

    after = PartitionLag(entry())
    after.restored(told if has_end else replace(told, source_end=None))
    after.reported(said(100), now_ms, now_ms)
    first = after.look(now_ms, LIMITS)
    after.end_seen(50, now_ms + 200)
    second = after.look(now_ms + 500, LIMITS)

    assert (first.lag_records, first.verdict) == (None, Verdict.UNKNOWN)
    assert (second.lag_records, second.verdict) == (None, Verdict.UNKNOWN)
    assert second.rule == "the source ends 50 offsets below the position: its log was cut"


def test_a_position_that_moved_while_nobody_looked_may_be_newer_than_the_end() -> None:
    before = watched({0: 0, 1: 100}, {1: 100})
    after = PartitionLag(entry())
    after.restored(before.sample(before.look(1_000, LIMITS), None))
    after.reported(said(140), 31_000, 31_000)
    after.end_seen(120, 31_200)

    assert after.look(31_300, LIMITS).lag_records == 0


def test_a_sample_from_a_clock_ahead_of_ours_hides_a_cut_source_no_longer_than_ours() -> None:
    before = watched({0: 100, 1: 100, 4: 50}, {1: 100, 4: 100})
    told = before.sample(before.look(4_100, LIMITS), None)
    after = PartitionLag(entry())
    after.restored(replace(told, time_ms=9_000))
    after.reported(said(100), 5_000, 5_000)
    after.end_seen(50, 7_000)

    assert after.look(7_100, LIMITS).verdict is Verdict.UNKNOWN


def away(state: str = "live", end: int | None = None, spoke_ms: int = 2_000) -> PartitionLag:
    """The worker spoke last, we begin at 300 s, and the source has 200 more by then."""
    after = PartitionLag(entry(retention_ms=600_000))
    after.reported(said(100, state=state, end=end), spoke_ms, 300_000)
    after.end_seen(300, 300_500)
    after.end_seen(300, 330_000)
    return after


@pytest.mark.parametrize(
    ("spoke_ms", "first_ms"),
    [(2_000, 746), (299_000, 4)],  # the first of 200 that came evenly since
    ids=["long ago", "a moment ago"],
)
def test_what_came_while_neither_worker_nor_we_were_there_is_younger_than_its_last_word(
    spoke_ms: int, first_ms: int
) -> None:
    standing = (lag := away(spoke_ms=spoke_ms)).look(331_000, LIMITS)

    assert standing.verdict is Verdict.STOPPED
    assert standing.lag_records == 200
    assert standing.time_lag_ms == 331_000 - (spoke_ms + first_ms)
    assert lag.headroom_ms == 600_000 - standing.time_lag_ms


def test_a_word_that_is_younger_than_the_first_look_does_not_hide_what_that_saw() -> None:
    after = PartitionLag(entry())
    after.reported(said(100), 300_600, 300_600)
    after.end_seen(300, 300_500)

    assert after.look(300_700, LIMITS).lag_records == 200


@pytest.mark.parametrize(("state", "end"), [("unreachable", None), ("live", 150)])
def test_the_last_word_of_a_worker_that_had_not_all_says_nothing_of_when_records_came(
    state: str, end: int | None
) -> None:
    assert away(state, end).look(331_000, LIMITS).time_lag_ms is None


def test_a_sample_that_is_newer_than_the_last_word_of_the_worker_stays() -> None:
    before = watched({0: 0, 1: 100, 20: 100, 60: 100}, {1: 100, 20: 100})
    after = PartitionLag(entry())
    after.restored(before.sample(before.look(60_000, LIMITS), None))
    after.reported(said(100), 20_000, 300_000)
    after.end_seen(300, 300_500)

    time_lag_ms = after.look(301_000, LIMITS).time_lag_ms
    assert time_lag_ms == 301_000 - (60_000 + 601)
