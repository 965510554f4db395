"""What an open transaction at the source holds back, and for how long."""

from __future__ import annotations

from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import said
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
