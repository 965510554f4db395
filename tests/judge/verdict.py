"""PASS, FAIL or UNKNOWN, from findings, demands and evidence.

Pure. FAIL needs an anomaly and nothing excuses it. PASS needs that nothing is wrong *and* that the
run was worth something: enough records, long enough, every fault seen to bite, both sides read to
an end that no longer moves. Everything else is UNKNOWN, which is not PASS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tests.judge.compare import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.judge.compare import Anomaly
    from tests.judge.uncommitted import SeenTwice


class Verdict(IntEnum):
    """The value is the exit code of the command."""

    PASS = 0
    FAIL = 1
    UNKNOWN = 2


class MissingTail(StrEnum):
    """What it means that the target is a shorter copy of the source.

    UNDECIDED: it may still come. LOST: the copier says that it is done, so it never will.
    """

    UNDECIDED = "undecided"
    LOST = "lost"


class Evidence(NamedTuple):
    """Whether a fault that the run was about has bitten, and how one knows."""

    fault: str
    bit: bool
    detail: str = ""


class Counted(NamedTuple):
    """Records written to a source partition; of `unknown` ones nobody knows whether they were."""

    committed: int
    unknown: int = 0

    def __str__(self) -> str:
        most = f" to {self.committed + self.unknown}" if self.unknown else ""
        return f"{self.committed}{most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a run must have been for its PASS to mean something. `rate`: records a second.

    `counted`: by source topic and partition, as whoever wrote them counted, where nobody else wrote
    and nothing was deleted. It has ended, so no transaction may be open there.
    """

    records: int = 1
    seconds: float = 0.0
    rate: float = 0.0
    counted: Mapping[tuple[str, int], Counted] = field(default_factory=dict)
    missing_tail: MissingTail = MissingTail.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found for one partition of one pair. `doubts` are reasons for UNKNOWN."""

    source_topic: str
    target_topic: str
    partition: int
    source_records: int
    target_records: int
    anomalies: tuple[Anomaly, ...] = ()
    doubts: tuple[str, ...] = ()
    uncommitted: SeenTwice | None = None
    target_end: int | None = None
    """Up to where the target was compared; None where there is none."""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict with everything it follows from."""

    verdict: Verdict
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    only_the_run: bool = False
    """No record is wrong or in doubt: the load was too slow, or a fault was not seen to bite."""

    @property
    def source_records(self) -> int:
        """Committed records of all judged source partitions."""
        return sum(finding.source_records for finding in self.findings)

    def count(self, kind: Kind) -> int:
        """Records of all partitions with this thing wrong."""
        return sum(a.count for f in self.findings for a in f.anomalies if a.kind is kind)

    @property
    def seen_twice(self) -> int:
        """Records that a read_uncommitted consumer of the targets saw more than once."""
        return sum(f.uncommitted.twice for f in self.findings if f.uncommitted is not None)


def decide(
    findings: Sequence[Finding],
    *,
    demands: Demands,
    ran_s: float | None = None,
    evidence: Sequence[Evidence] = (),
    doubts: Sequence[str] = (),
) -> Report:
    """Judge all findings together. `ran_s`: how long the run was; a length or a rate needs it."""
    tail_is_lost = demands.missing_tail is MissingTail.LOST
    failures = [
        f"{_place(f)}: {a.count} {a.kind}"
        for f in findings
        for a in f.anomalies
        if a.kind is not Kind.UNSEEN or tail_is_lost
    ]
    if failures:
        return Report(Verdict.FAIL, tuple(failures), tuple(findings))
    of_the_run = _too_slow(findings, demands, ran_s)
    of_the_run += [
        f"fault did not bite: {e.fault}" + (f" ({e.detail})" if e.detail else "")
        for e in evidence
        if not e.bit
    ]
    reasons = [*doubts, *_unmet(findings, demands, ran_s), *of_the_run]
    for finding in findings:
        known = [*finding.doubts, *_miscounted(finding, demands)]
        reasons += [f"{_place(finding)}: {doubt}" for doubt in known]
        reasons += [f"{_place(finding)}: {a.count} {a.kind}" for a in finding.anomalies]
    return Report(
        Verdict.UNKNOWN if reasons else Verdict.PASS,
        tuple(reasons),
        tuple(findings),
        only_the_run=bool(of_the_run) and reasons == of_the_run,
    )


def _unmet(findings: Sequence[Finding], demands: Demands, ran_s: float | None) -> list[str]:
    unmet: list[str] = []
    records = sum(finding.source_records for finding in findings)
    if records < demands.records:
        unmet.append(f"{records} records, {demands.records} demanded")
    if demands.seconds and ran_s is None:
        unmet.append(f"a run of {demands.seconds:g} s is demanded and its length is not known")
    elif ran_s is not None and ran_s < demands.seconds:
        unmet.append(f"ran for {ran_s:.1f} s, {demands.seconds:g} s demanded")
    if demands.rate and not ran_s:
        unmet.append(f"{demands.rate:,.0f} records/s demanded of a run of unknown length")
    return unmet


def _too_slow(findings: Sequence[Finding], demands: Demands, ran_s: float | None) -> list[str]:
    records = sum(finding.source_records for finding in findings)
    if not ran_s or records / ran_s >= demands.rate:
        return []
    return [f"a load of {records / ran_s:,.0f} records/s, {demands.rate:,.0f} demanded"]


def _miscounted(finding: Finding, demands: Demands) -> list[str]:
    """Say what both sides have alike and nobody wrote, or both lack: no comparison shows it."""
    counted = demands.counted.get((finding.source_topic, finding.partition))
    if counted is None:
        return []
    beyond = finding.source_records - counted.committed
    if 0 <= beyond <= counted.unknown:
        return []
    return [f"{finding.source_records} records at the source, {counted} were written"]


def _place(finding: Finding) -> str:
    return f"{finding.target_topic}-{finding.partition}"
