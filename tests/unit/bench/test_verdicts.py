from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.judged import MOST_MB, Round, less
from tests.bench.rows import Row, save
from tests.bench.systems import FLEET
from tests.bench.verdicts import Judged, exit_code, judged, table
from tests.bench.workloads import WORKLOADS
from tests.faultkit.bites import middle
from tests.judge.compare import Anomaly, Kind, OffsetRange
from tests.judge.verdict import Finding, Report, Verdict

FAR = Row(
    workload="1p",
    delivery="exactly-once",
    system="fleet",
    kafka="4.3.0",
    rtt_ms=100.0,
    window_bytes=200_000,
    security="sasl_ssl",
)
FOUND = Finding(
    source_topic="bench-1p",
    target_topic="east.bench-1p",
    partition=0,
    source_records=500_000,
    target_records=500_000,
)


def line(verdict: Verdict, *counts: tuple[Kind, int]) -> Judged:
    where = OffsetRange(0, 0)
    wrong = tuple(
        Anomaly(kind=kind, count=count, source=where, target=None, excerpt="")
        for kind, count in counts
    )
    report = Report(verdict, ("why",), (replace(FOUND, anomalies=wrong),))
    return judged(FAR, WORKLOADS["1p"], report, kill=True)


def test_a_judged_round_says_how_its_source_was_reached_and_what_was_wrong() -> None:
    found = line(
        Verdict.FAIL,
        *((Kind.LOST, 3), (Kind.REPEATED, 4), (Kind.OUT_OF_ORDER, 5)),
        *((Kind.CHANGED, 6), (Kind.EXTRA, 7), (Kind.UNSEEN, 8)),
    )

    assert (found.rtt_ms, found.window_bytes, found.security) == (100.0, 200_000, "sasl_ssl")
    assert (found.megabytes, found.records, found.kill) == (500.0, 500_000, True)
    assert (found.lost, found.repeated, found.out_of_order, found.other) == (3, 4, 5, 21)
    assert (found.verdict, found.reasons) == ("FAIL", ("why",))


def test_the_table_of_judged_rounds_ends_with_the_verdict(tmp_path: Path) -> None:
    found = line(Verdict.PASS)

    head, shown = table([found]).splitlines()

    assert head.split()[-5:] == ["lost", "repeated", "out_of_order", "other", "verdict"]
    assert shown.split()[-7:] == ["500000", "yes", "0", "0", "0", "0", "PASS"]
    save([found], tmp_path / "judged.json")
    assert json.loads((tmp_path / "judged.json").read_text())[0]["verdict"] == "PASS"


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNKNOWN])
def test_one_round_that_does_not_pass_is_in_the_exit_code(verdict: Verdict) -> None:
    passed = line(Verdict.PASS)

    assert exit_code([]) == 0
    assert exit_code([passed, passed]) == 0
    assert exit_code([passed, line(verdict), passed]) == 1


@pytest.mark.parametrize(
    ("at_kill", "is_written", "bit"),
    [
        (0, False, False),
        (0, True, False),
        (500, True, True),
        (900, True, False),
        (900, False, True),
    ],
)
def test_a_kill_bites_when_a_part_is_copied_and_a_part_is_not(
    at_kill: int, *, is_written: bool, bit: bool
) -> None:
    assert middle(at_kill, 1_000, is_written=is_written).bit is bit


def test_of_a_backlog_500_mb_are_judged_and_of_a_load_all_that_comes_in_20_s() -> None:
    small = replace(WORKLOADS["1p"], megabytes=100)
    asked = [
        Round(system=FLEET, workload=less(each), topic="topic", number=1, kill=False)
        for each in (WORKLOADS["1p"], WORKLOADS["100b-lz4"], small, WORKLOADS["latency"])
    ]

    assert [each.workload.megabytes for each in asked] == [MOST_MB, MOST_MB, 100, 0]
    assert [each.records for each in asked] == [500_000, 5_000_000, 100_000, 40_000]


def test_a_kill_without_a_judge_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--kill"])

    assert "it needs --judge" in capsys.readouterr().err
