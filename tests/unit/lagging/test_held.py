"""What an open transaction at the source holds back, and for how long."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import entry, said
from tests.unit.lagging.test_partition import LIMITS, watched


def test_records_of_an_open_transaction_are_held_back_and_say_so() -> None:
    seconds = range(0, 90, 2)
    lag = watched(dict.fromkeys(seconds, 100), {})
    for at_ms in (20_000, 88_000):
        lag.reported(said(100, high_watermark=140), at_ms, at_ms)

    standing = lag.look(88_100, LIMITS)

    assert standing.verdict is Verdict.STUCK
    assert standing.rule == "an open transaction at the source holds 40 offsets back for 1m08s"
    assert standing.lag_records == 0


def test_a_transaction_that_was_just_opened_on_an_idle_topic_holds_nothing_back_for_long() -> None:
    lag = watched(dict.fromkeys(range(0, 90, 2), 100), {})
    lag.reported(said(100, high_watermark=140), 20_000, 20_000)
    lag.reported(said(100, high_watermark=100), 40_000, 40_000)  # that one was aborted
    lag.reported(said(100, high_watermark=140), 88_000, 88_000)

    assert lag.look(88_100, LIMITS).verdict is Verdict.IDLE


def test_a_new_owner_without_an_answer_yet_does_not_end_what_is_held() -> None:
    lag = watched(dict.fromkeys(range(0, 90, 2), 100), {})
    lag.reported(said(100, high_watermark=140), 20_000, 20_000)
    unknown = replace(said(100), high_watermark=SourceOffset(-1), last_stable=SourceOffset(-1))
    lag.reported(unknown, 80_000, 80_000)
    lag.reported(said(100, high_watermark=140), 88_000, 88_000)

    assert lag.look(88_100, LIMITS).verdict is Verdict.STUCK


def restarted(high_watermark: int, *, end: int = 100, at_ms: int = 93_000) -> PartitionLag:
    """A process that goes on 5 s after one that had found an open transaction."""
    before = watched(dict.fromkeys(range(0, 90, 2), 100), {})
    before.reported(said(100, high_watermark=140), 20_000, 20_000)
    before.reported(said(100, high_watermark=140), 88_000, 88_000)
    after = PartitionLag(entry())
    after.restored(before.sample(before.look(88_100, LIMITS), None))
    after.reported(said(end, high_watermark=high_watermark), at_ms, at_ms)
    after.end_seen(end, at_ms)
    return after


def test_a_restart_goes_on_with_what_is_held() -> None:
    standing = restarted(140).look(93_000, LIMITS)

    assert standing.verdict is Verdict.STUCK
    assert standing.rule == "an open transaction at the source holds 40 offsets back for 1m05s"


def test_a_restart_on_a_host_whose_clock_is_behind_goes_on_with_it() -> None:
    assert restarted(140, at_ms=63_000).look(63_000, LIMITS).verdict is Verdict.STUCK


def test_a_transaction_that_ended_while_nobody_looked_is_not_the_next_one() -> None:
    ended, another = restarted(100), restarted(141, end=140)
    ended.reported(said(100, high_watermark=140), 94_000, 94_000)

    assert ended.look(94_000, LIMITS).verdict is Verdict.OK
    assert another.look(93_000, LIMITS).verdict is Verdict.OK
