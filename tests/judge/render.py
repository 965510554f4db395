"""The report of the judge as text.

Pure. One line a topic pair, an excerpt for each of the first anomalies, then the verdict.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from tests.judge.compare import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.judge.compare import Anomaly
    from tests.judge.verdict import Finding, Report

EXCERPTS = 20
"""Anomalies drawn in full; the table counts all."""

REASONS = 20
"""Reasons written out; the rest are counted."""

UNCOMMITTED = 5
"""Partitions of which it is written out what a read_uncommitted consumer saw."""

COLUMNS = ("pair", "partitions", "source", "target", *(kind.value for kind in Kind), "seen twice")


def render(report: Report) -> str:
    """Lay out a report for a terminal; ends with the line `verdict: …`."""
    rows = [COLUMNS, *_rows(report.findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    lines += _excerpts(report.findings)
    lines += _uncommitted(report.findings)
    lines += [f"- {reason}" for reason in report.reasons[:REASONS]]
    if len(report.reasons) > REASONS:
        lines.append(f"- and {len(report.reasons) - REASONS} more")
    lines.append(f"verdict: {report.verdict.name}")
    return "\n".join(lines)


def _cells(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    yield row[0].ljust(widths[0])
    for cell, width in zip(row[1:], widths[1:], strict=True):
        yield cell.rjust(width)


def _rows(findings: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    def pair(finding: Finding) -> tuple[str, str]:
        return finding.source_topic, finding.target_topic

    for (source, target), group in groupby(sorted(findings, key=pair), pair):
        members = list(group)
        counts = (
            sum(a.count for f in members for a in f.anomalies if a.kind is kind) for kind in Kind
        )
        yield (
            f"{source} -> {target}",
            str(len(members)),
            str(sum(f.source_records for f in members)),
            str(sum(f.target_records for f in members)),
            *map(str, counts),
            str(sum(f.uncommitted.twice for f in members if f.uncommitted)),
        )


def _excerpts(findings: Sequence[Finding]) -> Iterator[str]:
    found = [(f, a) for f in findings for a in f.anomalies]
    for finding, anomaly in found[:EXCERPTS]:
        yield f"{finding.target_topic}-{finding.partition}: {_headline(anomaly)}"
        yield from (f"    {line}" for line in anomaly.excerpt.splitlines())
        if anomaly.difference:
            yield f"    {anomaly.difference}"
    if len(found) > EXCERPTS:
        yield f"and {len(found) - EXCERPTS} more anomalies"


def _headline(anomaly: Anomaly) -> str:
    where = [f"source {anomaly.source}"] if anomaly.source else []
    where += [f"target {anomaly.target}"] if anomaly.target else []
    return f"{anomaly.count} {anomaly.kind} ({', '.join(where)})"


def _uncommitted(findings: Sequence[Finding]) -> Iterator[str]:
    """Say what read_uncommitted consumers saw, the partitions with most repeats first."""
    seen = [(f, f.uncommitted) for f in findings if f.uncommitted and f.uncommitted.hidden]
    seen.sort(key=lambda pair: (-pair[1].twice, -pair[1].hidden))
    for finding, saw in seen[:UNCOMMITTED]:
        shown = ", ".join(str(offsets) for offsets in saw.ranges[:5])
        more = f" and {len(saw.ranges) - 5} more ranges" if len(saw.ranges) > 5 else ""
        yield (
            f"{finding.target_topic}-{finding.partition}: a read_uncommitted consumer saw "
            f"{saw.hidden} records of no commit, {saw.twice} of them twice (target {shown}{more})"
        )
    if len(seen) > UNCOMMITTED:
        rest = [saw for _, saw in seen[UNCOMMITTED:]]
        yield (
            f"and in {len(rest)} more partitions {sum(saw.hidden for saw in rest)}, "
            f"{sum(saw.twice for saw in rest)} of them twice"
        )
