"""What a drill asked for is demanded of it, and nothing that it never asked for."""

from __future__ import annotations

import pytest

from tests.faultkit.asked import Asked, Ran, ran
from tests.judge.verdict import Finding, Verdict, decide


def verdict_of(run: Ran, records: int) -> tuple[Verdict, tuple[str, ...]]:
    found = Finding(
        source_topic="orders",
        target_topic="east.orders",
        partition=0,
        source_records=records,
        target_records=records,
    )
    demands = run.demands(acknowledged=records, seconds=60)
    report = decide([found], demands=demands, ran_s=run.seconds)
    return report.verdict, report.reasons


@pytest.mark.parametrize("rate", [1_000, 20_000])
def test_a_load_that_was_nearly_as_asked_passes_whatever_was_asked(rate: int) -> None:
    run = ran([Asked(rate, 10.0)], 110.0)
    assert run == Ran(rate, 100.0)
    assert verdict_of(run, 81 * rate) == (Verdict.PASS, ())


def test_a_machine_that_cannot_make_what_is_asked_is_told_so_and_nothing_failed() -> None:
    run = ran([Asked(20_000, 0.0)], 100.0)
    reasons = ("a load of 3,500 records/s, 16,000 demanded",)
    assert verdict_of(run, 350_000) == (Verdict.UNKNOWN, reasons)
    assert run.told(350_000) == "load: 3,500 records/s reached, 20,000 asked for, over 100.0 s"


def test_loads_that_began_one_after_the_other_are_asked_for_what_each_could_make() -> None:
    assert ran([Asked(300, 0.0), Asked(100, 50.0)], 100.0) == Ran(350.0, 100.0)


def test_a_run_goes_on_until_it_is_as_long_as_it_should_be() -> None:
    assert ran([Asked(300, 0.0)], 45.0).left_s(60) == 15
    assert ran([Asked(300, 0.0)], 75.0).left_s(60) == 0


def test_no_load_is_asked_for_nothing() -> None:
    assert ran([], 5.0).demands(acknowledged=0, seconds=0).rate == 0
