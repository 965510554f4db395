"""The report shows a line a pair, excerpts and the verdict."""

from __future__ import annotations

from tests.judge.compare import Anomaly, Kind, OffsetRange
from tests.judge.render import render
from tests.judge.uncommitted import SeenTwice
from tests.judge.verdict import Demands, Finding, decide


def finding(partition: int, *anomalies: Anomaly, twice: int = 0) -> Finding:
    return Finding(
        source_topic="t",
        target_topic="e.t",
        partition=partition,
        source_records=10,
        target_records=9,
        anomalies=anomalies,
        uncommitted=SeenTwice(twice, twice, (OffsetRange(40, 41),)) if twice else None,
    )


def test_a_report_with_a_change_and_repeats_for_uncommitted_readers() -> None:
    anomaly = Anomaly(
        kind=Kind.CHANGED,
        count=1,
        source=OffsetRange(5, 5),
        target=OffsetRange(7, 7),
        excerpt="source 4 [5] 6\ntarget 6 [7] 8",
        difference="key b'a' (1 B) became null",
    )
    report = decide([finding(0, anomaly), finding(1, twice=2)], demands=Demands())
    table, *rest = render(report).split("\n", 2)[1:]
    assert table.split() == ["t", "->", "e.t", "2", "20", "18", *"000100", "2"]
    (body,) = rest
    assert body == (
        "e.t-0: 1 changed (source 5, target 7)\n"
        "    source 4 [5] 6\n"
        "    target 6 [7] 8\n"
        "    key b'a' (1 B) became null\n"
        "e.t-1: a read_uncommitted consumer saw 2 records of no commit, 2 of them twice "
        "(target 40..41)\n"
        "- e.t-0: 1 changed\n"
        "verdict: FAIL"
    )


def test_only_the_partitions_with_most_repeats_are_written_out() -> None:
    report = decide([finding(n, twice=n) for n in range(1, 8)], demands=Demands())
    lines = render(report).splitlines()
    assert [line.split(":")[0] for line in lines[2:7]] == [f"e.t-{n}" for n in (7, 6, 5, 4, 3)]
    assert lines[7] == "and in 2 more partitions 3, 3 of them twice"
