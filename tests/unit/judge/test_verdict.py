"""PASS must be earned: anything wrong is FAIL, anything not proven is UNKNOWN."""

from __future__ import annotations

import pytest

from tests.judge.compare import Anomaly, Kind, OffsetRange
from tests.judge.verdict import (
    Counted,
    Demands,
    Evidence,
    Finding,
    MissingTail,
    Verdict,
    decide,
)

GOOD = Finding(
    source_topic="orders",
    target_topic="east.orders",
    partition=3,
    source_records=5,
    target_records=5,
)


def finding_with(kind: Kind) -> Finding:
    anomaly = Anomaly(kind=kind, count=2, source=OffsetRange(7, 8), target=None, excerpt="")
    return Finding(
        source_topic="orders",
        target_topic="east.orders",
        partition=3,
        source_records=5,
        target_records=5,
        anomalies=(anomaly,),
    )


def test_an_exact_copy_with_all_demands_met_passes() -> None:
    report = decide([GOOD], demands=Demands(records=5, seconds=60), ran_s=60.0)
    assert (report.verdict, report.reasons) == (Verdict.PASS, ())


def test_nothing_judged_is_unknown() -> None:
    report = decide([], demands=Demands())
    assert (report.verdict, report.reasons) == (
        Verdict.UNKNOWN,
        ("0 records, 1 demanded",),
    )


def test_too_few_records_are_unknown() -> None:
    report = decide([GOOD], demands=Demands(records=6))
    assert (report.verdict, report.reasons) == (
        Verdict.UNKNOWN,
        ("5 records, 6 demanded",),
    )


def test_too_short_a_run_is_unknown() -> None:
    report = decide([GOOD], demands=Demands(seconds=60), ran_s=59.9)
    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("ran for 59.9 s, 60 s demanded",)


def test_a_run_of_unknown_length_is_unknown_where_a_length_is_demanded() -> None:
    assert decide([GOOD], demands=Demands(seconds=60)).verdict is Verdict.UNKNOWN


def test_a_load_below_the_rate_that_is_demanded_is_unknown() -> None:
    assert decide([GOOD], demands=Demands(rate=0.5), ran_s=10.0).verdict is Verdict.PASS
    report = decide([GOOD], demands=Demands(rate=2), ran_s=5.0)
    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("a load of 1 records/s, 2 demanded",)
    assert decide([GOOD], demands=Demands(rate=0.5)).verdict is Verdict.UNKNOWN


def test_a_load_below_its_rate_and_a_fault_that_did_not_bite_are_no_doubt_about_records() -> None:
    slow, unproven = Demands(rate=2), [Evidence("cut", bit=False)]
    assert decide([GOOD], demands=slow, ran_s=5.0).only_the_run
    assert decide([GOOD], demands=slow, ran_s=5.0, evidence=unproven).only_the_run
    assert decide([GOOD], demands=Demands(), evidence=unproven).only_the_run
    others = (
        decide([GOOD], demands=Demands(rate=0.5), ran_s=5.0),
        decide([finding_with(Kind.UNSEEN)], demands=Demands(), evidence=unproven),
        decide([GOOD], demands=slow, ran_s=5.0, doubts=["the source grew"]),
        decide([GOOD], demands=Demands(rate=2, records=6), ran_s=5.0),
        decide([finding_with(Kind.UNSEEN)], demands=slow, ran_s=5.0),
        decide([finding_with(Kind.LOST)], demands=slow, ran_s=5.0),
    )
    assert not [report for report in others if report.only_the_run]


def test_a_fault_that_did_not_bite_is_unknown() -> None:
    evidence = [
        Evidence("kill -9", bit=True),
        Evidence("cut of the line", bit=False, detail="0 bytes held"),
    ]
    report = decide([GOOD], demands=Demands(), evidence=evidence)
    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("fault did not bite: cut of the line (0 bytes held)",)


def test_every_anomaly_fails_whatever_else_is_unknown() -> None:
    for kind in (Kind.LOST, Kind.REPEATED, Kind.OUT_OF_ORDER, Kind.CHANGED, Kind.EXTRA):
        report = decide([GOOD, finding_with(kind)], demands=Demands(records=99))
        assert report.verdict is Verdict.FAIL
        assert report.reasons == (f"east.orders-3: 2 {kind.value}",)


def test_a_missing_tail_is_unknown_until_the_copier_says_that_it_is_done() -> None:
    short = [finding_with(Kind.UNSEEN)]
    assert decide(short, demands=Demands()).verdict is Verdict.UNKNOWN
    lost = decide(short, demands=Demands(missing_tail=MissingTail.LOST))
    assert (lost.verdict, lost.reasons) == (
        Verdict.FAIL,
        ("east.orders-3: 2 not seen at the end",),
    )


def test_a_doubt_about_one_partition_makes_all_unknown() -> None:
    doubtful = Finding(
        source_topic="orders",
        target_topic="east.orders",
        partition=0,
        source_records=5,
        target_records=5,
        doubts=("the source grew",),
    )
    report = decide([GOOD, doubtful], demands=Demands())
    assert (report.verdict, report.reasons) == (
        Verdict.UNKNOWN,
        ("east.orders-0: the source grew",),
    )


@pytest.mark.parametrize(
    ("counted", "reasons"),
    [
        (Counted(5), ()),
        (Counted(4), ("east.orders-3: 5 records at the source, 4 were written",)),
        (Counted(6), ("east.orders-3: 5 records at the source, 6 were written",)),
        (Counted(4, 1), ()),
        (Counted(2, 2), ("east.orders-3: 5 records at the source, 2 to 4 were written",)),
    ],
    ids=["all", "one that was aborted", "one behind a hole", "one without an answer", "too many"],
)
def test_what_the_source_has_is_what_was_written_or_nobody_knows_what_was_copied(
    counted: Counted, reasons: tuple[str, ...]
) -> None:
    """Alike on both sides is what no comparison shows."""
    report = decide([GOOD], demands=Demands(counted={("orders", 3): counted}))
    assert report.verdict is (Verdict.UNKNOWN if reasons else Verdict.PASS)
    assert (report.reasons, report.only_the_run) == (reasons, False)


def test_of_what_nobody_counted_no_number_is_demanded() -> None:
    demands = Demands(counted={("orders", 4): Counted(1), ("clicks", 3): Counted(1)})
    assert decide([GOOD], demands=demands).verdict is Verdict.PASS


def test_the_exit_codes_are_0_1_2() -> None:
    assert [int(Verdict.PASS), int(Verdict.FAIL), int(Verdict.UNKNOWN)] == [0, 1, 2]
