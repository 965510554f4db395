"""What the demo shows: live traffic both ways, judged record by record.

Each check is a line `ok` or `FAILED` with what was found.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.demo.plan import SIDES, Side, strangers
from tests.faultkit.traffic import traffic
from tests.judge.judging import Copy, judge
from tests.judge.reading import ClusterAccess
from tests.judge.render import render
from tests.judge.verdict import Demands, MissingTail, Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.load.tally import Tally

RATE = 2500.0
"""Records a second in each region."""

SECONDS = 15.0
HUGE = 3000
"""Records of a single transaction; one is committed, one aborted."""

PATIENCE_S = 60.0
"""How long a copy may stand still before the demo gives up on it."""


def mirrorfleet(*arguments: str) -> list[str]:
    """Give the command as a user types it."""
    script = Path(sys.executable).with_name("mirrorfleet")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "services.cli"]
    return [*program, *arguments]


class Check(NamedTuple):
    """One line of the result."""

    name: str
    ok: bool
    found: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.ok else 'FAILED'}  {self.name}: {self.found}"


def make_traffic(bootstraps: Mapping[str, str], seed: str) -> dict[str, Tally]:
    """Write to both regions at once, all kinds of records; give what was acknowledged."""
    more = ["--seconds", f"{SECONDS:g}", "--huge", str(HUGE)]
    with ExitStack() as stack:
        runs = {
            side.name: stack.enter_context(
                traffic(
                    bootstraps[side.name],
                    [
                        _argument(topic.name, topic.partitions, topic.compacted)
                        for topic in side.topics
                    ],
                    rate=RATE,
                    seed=f"{seed}-{side.name}",
                    more=more,
                )
            )
            for side in SIDES
        }
        return {name: run.wait_end(SECONDS) for name, run in runs.items()}


def _argument(name: str, partitions: int, compacted: object) -> str:
    return f"{name}:{partitions}" + (":compact" if compacted else "")


def judge_side(side: Side, bootstraps: Mapping[str, str]) -> Report:
    """Compare every record of the topics of one region with its copy in the other."""
    copy = Copy(
        source=ClusterAccess(bootstraps[side.name]),
        target=ClusterAccess(bootstraps[side.other]),
        pairs=side.pairs,
        patience_s=PATIENCE_S,
    )
    return judge(copy, demands=Demands(records=HUGE, missing_tail=MissingTail.LOST))


def check_side(side: Side, tally: Tally, bootstraps: Mapping[str, str]) -> tuple[list[Check], str]:
    """Judge one direction; the checks, and the judge's own report."""
    report = judge_side(side, bootstraps)
    partitions = len(report.findings)
    checks = [
        Check(
            f"{side.name}: traffic",
            tally.unknown.total() == 0 and tally.records > 0,
            f"{tally.records} records acknowledged in {tally.seconds:.0f} s, "
            f"{tally.transactions_committed} transactions committed, "
            f"{tally.transactions_aborted} aborted",
        ),
        Check(
            f"{side.name} -> {side.other}: exact copies",
            report.verdict is Verdict.PASS,
            f"{report.verdict.name}, {report.source_records} records of {partitions} partitions: "
            "none lost, repeated, out of order or changed"
            if report.verdict is Verdict.PASS
            else f"{report.verdict.name}: {'; '.join(report.reasons[:3])}",
        ),
        Check(
            f"{side.name} -> {side.other}: acknowledged records are in the copy",
            report.source_records >= tally.records,
            f"{report.source_records} judged, {tally.records} acknowledged by this run",
        ),
    ]
    return checks, render(report)


def check_topics(side: Side, names: set[str]) -> Check:
    """No topic of a region is a copy of a copy."""
    found = strangers(names, side)
    return Check(
        f"{side.name}: no copy goes back",
        not found,
        f"unexpected: {', '.join(sorted(found))}" if found else "own topics and first copies only",
    )


def topic_names(bootstrap: str) -> set[str]:
    """Name all topics of a region."""
    return set(ClusterAccess(bootstrap).admin().list_topics(timeout=15).topics)
