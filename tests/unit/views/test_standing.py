"""How partitions stand by what came, and when it came: no clock but the reader's counts."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records import progress, samples
from mirrorfleet.records.samples import Verdict
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.views.standing import Standing, standings
from mirrorfleet.views.told import Fleet
from mirrorfleet.views.verdicts import Judge
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry, fleet, report, sample, snapshot

A = entry(0)
COPIED = report(A, last_stable=SourceOffset(100))
HOUR_MS = 3_600_000


def told_at_once(clock_ms: int, **changed: object) -> Fleet:
    """All is copied as of NOW, and a sample comes of which the clock of `lag` says `clock_ms`."""
    found = fleet([A])
    said = sample(A, time_ms=clock_ms, lag_records=0, **changed)
    found.told.apply(ControlKind.PROGRESS, *progress.encode(snapshot(COPIED)), NOW)
    found.told.apply(ControlKind.SAMPLES, *samples.encode(said), NOW)
    return found


def standing(of: Fleet, now_ms: int) -> Standing:
    (found,) = standings(of, LINK, now_ms)
    return found


@pytest.mark.parametrize("clock_ms", [NOW - HOUR_MS, NOW, NOW + HOUR_MS])
def test_a_mirror_that_died_with_its_lag_service_is_stopped_whatever_the_clock_of_lag_was(
    clock_ms: int,
) -> None:
    found = standing(told_at_once(clock_ms), NOW + 1_800_000)

    assert (found.judged.verdict, found.judged.judge) == (Verdict.STOPPED, Judge.OWNER)
    assert found.lag_records is None


def test_who_is_not_read_any_more_stands_as_when_he_was_read_last() -> None:
    told = (snapshot(report(A), time_ms=NOW - 5_000), snapshot(report(A, records=115)))
    heard = fleet([A], *told, sample(A), trouble="no broker answers", read_ms=NOW)

    assert standing(heard, NOW + HOUR_MS) == standing(heard, NOW)
    assert standing(heard, NOW).judged.judge is Judge.LAG
    assert standing(heard, NOW).rate is not None
    without = fleet([A], *told, trouble="no broker answers", read_ms=NOW)
    assert standing(without, NOW + HOUR_MS).judged.verdict is Verdict.OK
    silent = fleet([A], *told, trouble="no broker answers", read_ms=NOW + 30_000)
    assert standing(silent, NOW + HOUR_MS).judged.rule == "its owner has been silent for 30s"


@pytest.mark.parametrize(
    ("end", "eta_ms"),
    [
        (1_100, 6_000),
        (1_180, 8_500),
        (1_420, 46_000),
        (1_500, None),
        (9_000, None),
    ],
    ids=["nothing comes", "some comes", "nearly as much comes", "as much comes", "more comes"],
)
def test_a_backlog_is_gone_when_what_comes_meanwhile_is_copied_too(
    end: int, eta_ms: int | None
) -> None:
    """100 offsets a second are passed, of which half are records; 1,000 waited 4 s ago."""
    first = report(A, last_stable=SourceOffset(1_100))
    second = report(A, next_source=SourceOffset(500), last_stable=SourceOffset(end), records=295)
    found = fleet([A], snapshot(first, time_ms=NOW - 4_500), snapshot(second))

    assert standing(found, NOW).eta_ms == eta_ms


def test_when_a_backlog_is_gone_is_not_known_until_two_ends_are() -> None:
    first = report(A, last_stable=SourceOffset(-1))
    found = fleet([A], snapshot(first, time_ms=NOW - 4_500), snapshot(report(A, records=295)))

    assert standing(found, NOW).lag_records == 10
    assert standing(found, NOW).eta_ms is None


def test_a_read_of_our_future_is_of_now() -> None:
    set_back = fleet([A], snapshot(report(A), time_ms=NOW - 60_000), read_ms=NOW + HOUR_MS)

    assert standing(set_back, NOW).judged.rule == "its owner has been silent for 1m00s"


@pytest.mark.parametrize("clock_ms", [NOW - HOUR_MS, NOW, NOW + HOUR_MS])
def test_what_lag_says_now_is_shown_whatever_its_clock_is(clock_ms: int) -> None:
    found = standing(told_at_once(clock_ms, verdict=Verdict.STUCK), NOW + 500)

    assert (found.judged.verdict, found.judged.judge) == (Verdict.STUCK, Judge.LAG)
    assert found.judged.time_ms == NOW
