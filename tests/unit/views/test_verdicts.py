"""Which rule gives which verdict, and when the lag service's word counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.overview import Reported
from mirrorfleet.records.progress import held_up
from mirrorfleet.records.samples import HOLDS_MS, Verdict
from mirrorfleet.views.verdicts import Judge, Judged, judge, worst
from tests.unit.views.making import NOW, entry, report, sample, snapshot

ENTRY = entry()
PAUSED = replace(ENTRY, state=CatalogState.PAUSED)


def reported(time_ms: int = NOW - 500, **changed: object) -> Reported:
    made = report(ENTRY, **changed)
    return Reported(snapshot(made, time_ms=time_ms), made)


@pytest.mark.parametrize(
    ("changed", "verdict", "rule"),
    [
        ({"fault": "boom"}, Verdict.FAULTED, "its owner reports a fault"),
        (
            {"last_stable": SourceOffset(-1)},
            Verdict.UNKNOWN,
            "its owner has not read from the source yet",
        ),
        ({"last_stable": SourceOffset(100)}, Verdict.OK, "nothing is left to copy"),
        (
            {"last_stable": SourceOffset(100), "last_progress_ms": NOW - 10_001},
            Verdict.IDLE,
            "nothing is left to copy, nothing came for 10s",
        ),
        ({}, Verdict.OK, "it copies live"),
        (
            {"state": "catch-up"},
            Verdict.CATCHING_UP,
            "it works off its backlog on a connection of its own",
        ),
        (
            {"state": "waiting"},
            Verdict.CATCHING_UP,
            "its backlog waits: its worker has a more urgent one",
        ),
        ({"state": "throttled"}, Verdict.CATCHING_UP, "what is left waits for its throttle"),
        (
            {"last_progress_ms": NOW - 30_001},
            Verdict.STUCK,
            "10 records wait and nothing was copied for 30s",
        ),
        ({"last_progress_ms": NOW - 30_000}, Verdict.OK, "it copies live"),
    ],
)
def test_the_report_of_an_owner_is_judged_by_the_first_rule_that_applies(
    changed: dict[str, object], verdict: Verdict, rule: str
) -> None:
    made = report(ENTRY, **changed)
    found = judge(ENTRY, Reported(snapshot(made), made), None, NOW)

    assert found == Judged(verdict, rule, Judge.OWNER, NOW - 500)


def test_a_silent_owner_a_pause_and_no_report_are_no_verdict_on_the_data() -> None:
    silent = judge(ENTRY, reported(NOW - 10_001), None, NOW)
    paused = judge(PAUSED, reported(), None, NOW)
    nobody = judge(ENTRY, None, None, NOW)

    assert (silent.verdict, silent.rule) == (
        Verdict.STOPPED,
        "its owner has been silent for 10s",
    )
    assert (paused.verdict, paused.rule) == (Verdict.STOPPED, "the catalog says paused")
    assert nobody == Judged(
        Verdict.UNKNOWN, "no worker has reported this partition yet", Judge.OWNER, None
    )


def test_a_fresh_sample_is_taken_and_an_old_one_is_not() -> None:
    behind = sample(ENTRY, verdict=Verdict.BEHIND, rule="lag grows")

    assert judge(ENTRY, reported(), behind, NOW) == Judged(
        Verdict.BEHIND, "lag grows", Judge.LAG, NOW - 2_000
    )
    idle = replace(behind, time_ms=NOW - HOLDS_MS)
    assert judge(ENTRY, reported(), idle, NOW).judge is Judge.LAG  # the next one is not due
    old = replace(behind, time_ms=NOW - HOLDS_MS - 1)
    assert judge(ENTRY, reported(), old, NOW).judge is Judge.OWNER


def test_a_fault_that_came_or_went_after_the_sample_counts() -> None:
    came = judge(ENTRY, reported(fault="boom"), sample(ENTRY), NOW)
    went = judge(ENTRY, reported(), sample(ENTRY, verdict=Verdict.FAULTED), NOW)
    both = judge(ENTRY, reported(fault="boom"), sample(ENTRY, verdict=Verdict.FAULTED), NOW)

    assert (came.verdict, went.verdict) == (Verdict.FAULTED, Verdict.OK)
    assert both.judge is Judge.LAG


def test_a_sample_from_before_the_owner_fell_silent_is_overtaken() -> None:
    before = judge(ENTRY, reported(NOW - 15_000), sample(ENTRY, time_ms=NOW - 14_000), NOW)
    after = judge(
        ENTRY,
        reported(NOW - 15_000),
        sample(ENTRY, time_ms=NOW - 1_000, verdict=Verdict.STOPPED),
        NOW,
    )

    assert (before.verdict, before.judge) == (Verdict.STOPPED, Judge.OWNER)
    assert after.judge is Judge.LAG


def test_what_was_well_when_lag_died_is_stuck_when_its_owner_says_so() -> None:
    well = sample(ENTRY, verdict=Verdict.IDLE, time_ms=NOW - 120_000)
    stuck = reported(last_progress_ms=NOW - 60_000)

    assert judge(ENTRY, stuck, well, NOW).verdict is Verdict.STUCK
    assert judge(ENTRY, reported(), well, NOW).judge is Judge.LAG
    later = replace(well, time_ms=NOW - 500)
    assert judge(ENTRY, stuck, later, NOW).judge is Judge.LAG
    behind = replace(well, verdict=Verdict.BEHIND)
    assert judge(ENTRY, stuck, behind, NOW).judge is Judge.LAG


def test_a_slot_that_its_owner_cannot_take_is_stopped_with_the_reason() -> None:
    state = held_up("fencing", "the coordinator does not answer")
    of_slot = replace(snapshot(), state=state)
    rule = "slot 3 is not copied: the coordinator does not answer"
    stopped = Judged(Verdict.STOPPED, rule, Judge.OWNER, NOW - 500)

    assert judge(ENTRY, None, None, NOW, of_slot) == stopped
    assert judge(ENTRY, reported(), sample(ENTRY), NOW, of_slot) == stopped
    lag_says = sample(ENTRY, verdict=Verdict.STOPPED)
    assert judge(ENTRY, reported(), lag_says, NOW, of_slot).judge is Judge.LAG
    assert judge(ENTRY, reported(fault="boom"), None, NOW, of_slot).verdict is Verdict.FAULTED
    assert judge(PAUSED, reported(), None, NOW, of_slot).rule == "the catalog says paused"
    silent = replace(of_slot, time_ms=NOW - 10_001)
    assert judge(ENTRY, None, None, NOW, silent).verdict is Verdict.UNKNOWN


def test_the_worst_verdict_stands_for_many() -> None:
    assert worst([Verdict.OK, Verdict.FAULTED, Verdict.STUCK]) is Verdict.FAULTED
    assert worst([]) is Verdict.IDLE


def test_a_worker_that_speaks_again_is_not_called_silent_by_a_sample_of_before() -> None:
    silent = sample(ENTRY, verdict=Verdict.STOPPED)

    assert judge(ENTRY, reported(), silent, NOW).verdict is Verdict.OK
    assert judge(PAUSED, reported(), silent, NOW).judge is Judge.LAG
    assert judge(ENTRY, reported(NOW - 2_000), silent, NOW).judge is Judge.LAG


def test_of_an_owner_who_cannot_be_heard_here_nothing_is_known() -> None:
    silent = reported(NOW - 60_000)
    unknown = "the target does not tell here whether its worker has written"

    for seen in (None, silent):
        found = judge(ENTRY, seen, None, NOW, is_unheard=True)
        assert (found.verdict, found.rule) == (Verdict.UNKNOWN, unknown)
    assert judge(ENTRY, reported(), None, NOW, is_unheard=True).verdict is Verdict.OK
    faulted = reported(NOW - 10_001, fault="boom")
    assert judge(ENTRY, faulted, None, NOW, is_unheard=True).verdict is Verdict.FAULTED
    fresh = sample(ENTRY, time_ms=NOW - 100)
    assert judge(ENTRY, silent, fresh, NOW, is_unheard=True).judge is Judge.LAG
