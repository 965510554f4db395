"""Our clock is set back by an hour: what is dated by it before would look new until then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirrorfleet.lagging.partition import PartitionLag, Standing
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import entry, said

LIMITS = Limits()
SECOND = 1_000
BEFORE = range(3_580, 3_601)
"""Seconds of the clock that is set back then, to `AFTER`."""
AFTER = range(1, 61)


def looks(
    lag: PartitionLag, seconds: range, *, position: int, ends: dict[int, int]
) -> list[Standing]:
    """One look a second at a mirror that speaks, and at a source seen where `ends` has it."""
    found = []
    for second in seconds:
        at_ms = second * SECOND
        if second in ends:
            lag.end_seen(ends[second], at_ms - 200)
        lag.reported(said(position), at_ms, at_ms)
        found.append(lag.look(at_ms, LIMITS))
    return found


def test_a_source_that_is_not_seen_then_is_no_lag_0_for_as_long_as_an_old_end_is_fresh() -> None:
    lag = PartitionLag(entry())
    before = looks(lag, BEFORE, position=100, ends=dict.fromkeys(BEFORE, 100))
    after = looks(lag, AFTER, position=100, ends={})

    assert before[-1].verdict is Verdict.OK
    fresh = LIMITS.fresh_ms // SECOND
    assert [one.lag_records for one in after[fresh:]] == [None] * (len(AFTER) - fresh)
    assert (after[-1].verdict, after[-1].rule) == (
        Verdict.UNKNOWN,
        "the source's end has not been seen for 59s",
    )


@pytest.mark.parametrize("seen", [(), AFTER[1:]])
def test_what_waits_grows_older_without_a_break(seen: Sequence[int]) -> None:
    lag = PartitionLag(entry())
    ends = {second: 100 if second < 3_590 else 200 for second in BEFORE}
    before = looks(lag, BEFORE, position=100, ends=ends)
    after = looks(lag, AFTER, position=100, ends=dict.fromkeys(seen, 200))

    late_ms = before[-1].time_lag_ms
    assert late_ms == 3_600_000 - (3_589_000 - 200 + 5)
    # the moment of the step itself took no time
    assert [one.time_lag_ms for one in after] == [late_ms + (at - 1) * SECOND for at in AFTER]


def test_what_waits_stays_as_old_when_an_end_is_seen_before_the_first_look() -> None:
    lag = PartitionLag(entry())
    ends = {second: 100 if second < 3_590 else 200 for second in BEFORE}
    before = looks(lag, BEFORE, position=100, ends=ends)
    after = looks(lag, AFTER, position=100, ends=dict.fromkeys(AFTER, 200))

    late_ms = before[-1].time_lag_ms
    assert late_ms is not None
    # the step is known by the time at which that end was seen, 200 ms before the look
    assert [one.time_lag_ms for one in after] == [late_ms + 200 + (at - 1) * SECOND for at in AFTER]


def test_a_lag_from_before_is_no_measure_of_where_it_goes() -> None:
    lag = PartitionLag(entry())
    ends = {second: 100 + 10 * (second - BEFORE[0]) for second in BEFORE}
    looks(lag, BEFORE, position=100, ends=ends)
    looks(lag, AFTER, position=100, ends=dict.fromkeys(AFTER, ends[BEFORE[-1]]))

    dates = [as_of for as_of, _, _ in lag._going._looks]
    assert dates[0] < dates[-1] <= AFTER[-1] * SECOND


def test_a_source_out_of_sight_before_stays_unknown() -> None:
    lag = PartitionLag(entry())
    before = looks(lag, BEFORE, position=100, ends={BEFORE[0]: 100})
    after = looks(lag, AFTER, position=100, ends={})

    assert {one.verdict for one in (before[-1], *after)} == {Verdict.UNKNOWN}
    assert {one.lag_records for one in after} == {None}


def test_a_source_that_was_cut_stays_unknown() -> None:
    lag = PartitionLag(entry())
    ends = {second: 100 if second < 3_590 else 40 for second in BEFORE}
    before = looks(lag, BEFORE, position=100, ends=ends)
    after = looks(lag, AFTER, position=100, ends={})

    assert {one.verdict for one in (before[-1], *after)} == {Verdict.UNKNOWN}
    assert {one.lag_records for one in after} == {None}
