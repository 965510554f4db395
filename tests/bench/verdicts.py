"""What the judge says of a judged round, as a line of a table of its own: pure.

The rows of what was measured keep their keys; these lines are printed below them, and written to
`judged.json` beside the file of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.bench.rows import aligned
from tests.bench.workloads import MEGABYTE
from tests.judge.compare import Kind
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.rows import Row
    from tests.bench.workloads import Workload
    from tests.judge.verdict import Report

FILE: Final = "judged.json"
COLUMNS: Final = {
    "workload": 14,
    "delivery": 14,
    "system": 10,
    "rtt_ms": 7,
    "window_bytes": 12,
    "security": 10,
    "megabytes": 9,
    "records": 9,
    "kill": 6,
    "lost": 6,
    "repeated": 8,
    "out_of_order": 12,
    "other": 6,
    "verdict": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One line. `other`: records that are changed, from elsewhere, or not seen at the end."""

    workload: str
    delivery: str
    system: str
    rtt_ms: float
    window_bytes: int | None
    security: str
    megabytes: float
    records: int
    kill: bool
    lost: int
    repeated: int
    out_of_order: int
    other: int
    verdict: str
    reasons: tuple[str, ...]


def judged(row: Row, workload: Workload, report: Report, *, kill: bool) -> Judged:
    """The line of a round; `row` says what was measured beside it."""
    counts = {kind: report.count(kind) for kind in Kind}
    lost, repeated, moved = (counts.pop(k) for k in (Kind.LOST, Kind.REPEATED, Kind.OUT_OF_ORDER))
    return Judged(
        workload=row.workload,
        delivery=row.delivery,
        system=row.system,
        rtt_ms=row.rtt_ms,
        window_bytes=row.window_bytes,
        security=row.security,
        megabytes=report.source_records * workload.record_bytes / MEGABYTE,
        records=report.source_records,
        kill=kill,
        lost=lost,
        repeated=repeated,
        out_of_order=moved,
        other=sum(counts.values()),
        verdict=report.verdict.name,
        reasons=report.reasons,
    )


def table(lines: Sequence[Judged]) -> str:
    """For reading."""
    return aligned(COLUMNS, lines)


def exit_code(lines: Sequence[Judged]) -> int:
    """0 when every judged round passed: what is not known to be right is not right."""
    return int(any(line.verdict != Verdict.PASS.name for line in lines))
