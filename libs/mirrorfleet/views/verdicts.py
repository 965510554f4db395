"""How a partition does, in one word, with the rule that says so.

The lag service judges with knowledge of both ends (`records.samples`); its word is taken while it
is fresh. Without it the owner's own report is judged by the rules below, in this order: the first
one that applies. Pure: `now_ms` comes in. Reports and samples are dated by one clock, the reader's,
so that none of their writers' clocks makes one fresh or old.

    its slot cannot be taken         stopped      no report            unknown
    a fault                          faulted      paused               stopped
    the owner cannot be heard here   unknown      the owner is silent  stopped
    the source does not answer       unknown      nothing left         idle, or ok while it moves
    records wait and nothing moves   stuck        backlog, also later  catching-up
    else                             ok
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.overview import STALE_MS, STUCK_MS, duration, is_silent, why_untaken
from mirrorfleet.records.progress import CATCH_UP, THROTTLED, UNREACHABLE, WAITING
from mirrorfleet.records.samples import HOLDS_MS, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.overview import Reported
    from mirrorfleet.records.progress import PartitionProgress, Progress
    from mirrorfleet.records.samples import Sample

SAMPLE_STALE_MS: Final = HOLDS_MS
"""A sample holds until the next one; quiet partitions are sampled less often than busy ones."""
IDLE_MS: Final = 10_000
"""Nothing came for so long: idle."""
_BACKLOG: Final = {
    WAITING: "its backlog waits: its worker has a more urgent one",
    THROTTLED: "what is left waits for its throttle",
    CATCH_UP: "it works off its backlog on a connection of its own",
}
"""What the owner's word says of a backlog."""
_UNHEARD: Final = "the target does not tell here whether its worker has written"


class Judge(StrEnum):
    """Who gave a verdict."""

    LAG = "the lag service"
    OWNER = "the owner's report"


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, its rule in words, who gave it and when (`time_ms`; None: from no report)."""

    verdict: Verdict
    rule: str
    judge: Judge
    time_ms: int | None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one to show for many; IDLE for none."""
    return max(verdicts, key=lambda one: one.rank, default=Verdict.IDLE)


def judge(
    entry: CatalogPartition,
    seen: Reported | None,
    sample: Sample | None,
    now_ms: int,
    of_slot: Progress | None = None,
    *,
    is_unheard: bool = False,
) -> Judged:
    """The verdict for one partition of the catalog; `of_slot` is the last word of its slot.

    `is_unheard`: the target does not tell here what its owner says now.
    """
    untaken = "" if _stands_anyway(entry, seen) else why_untaken(of_slot, now_ms)
    if (
        sample is not None
        and _is_current(entry, sample, seen, now_ms, untaken)
        and (not untaken or sample.verdict is Verdict.STOPPED)
    ):
        return Judged(sample.verdict, sample.rule, Judge.LAG, sample.time_ms)
    if untaken and of_slot is not None:
        return Judged(Verdict.STOPPED, untaken, Judge.OWNER, of_slot.time_ms)
    if is_unheard and not _stands_anyway(entry, seen) and _is_silent_or_new(seen, now_ms):
        return Judged(Verdict.UNKNOWN, _UNHEARD, Judge.OWNER, None)
    if seen is None:
        silent = _UNHEARD if is_unheard else "no worker has reported this partition yet"
        return Judged(Verdict.UNKNOWN, silent, Judge.OWNER, None)
    verdict, rule = _of_report(entry, seen, now_ms)
    return Judged(verdict, rule, Judge.OWNER, seen.snapshot.time_ms)


def _is_silent_or_new(seen: Reported | None, now_ms: int) -> bool:
    """Whether its owner said nothing of it lately."""
    return seen is None or is_silent(seen.snapshot, now_ms)


def _stands_anyway(entry: CatalogPartition, seen: Reported | None) -> bool:
    """Whether it would stand still if its slot were copied."""
    faulted = seen is not None and bool(seen.partition.fault)
    return faulted or entry.state is CatalogState.PAUSED


def _is_current(
    entry: CatalogPartition, sample: Sample, seen: Reported | None, now_ms: int, untaken: str
) -> bool:
    """Fresh, and nothing became known since that it cannot have known: a fault, a silent owner, one
    that speaks again, or that what waits does not move though all was well, as a lag service that
    died would have it.
    """
    if now_ms - sample.time_ms > SAMPLE_STALE_MS:
        return False
    if seen is None:
        return True
    heard_ms = seen.snapshot.time_ms
    if now_ms - heard_ms > STALE_MS:
        return sample.time_ms > heard_ms + STALE_MS
    if heard_ms <= sample.time_ms:
        return True
    if bool(seen.partition.fault) != (sample.verdict is Verdict.FAULTED):
        return False
    if sample.verdict is Verdict.STOPPED:
        return entry.state is CatalogState.PAUSED or bool(untaken)
    return not (sample.verdict.fine and _of_report(entry, seen, now_ms)[0] is Verdict.STUCK)


def _of_report(entry: CatalogPartition, seen: Reported, now_ms: int) -> tuple[Verdict, str]:
    partition = seen.partition
    silent = now_ms - seen.snapshot.time_ms
    if partition.fault:
        return Verdict.FAULTED, "its owner reports a fault"
    if entry.state is CatalogState.PAUSED:
        return Verdict.STOPPED, "the catalog says paused"
    if silent > STALE_MS:
        return Verdict.STOPPED, f"its owner has been silent for {duration(silent)}"
    if partition.state == UNREACHABLE:
        return Verdict.UNKNOWN, "its leader at the source does not answer its owner"
    lag = partition.lag_records
    if lag is None:
        return Verdict.UNKNOWN, "its owner has not read from the source yet"
    return _of_lag(partition, lag, now_ms - partition.last_progress_ms)


def _of_lag(partition: PartitionProgress, lag: int, still_ms: int) -> tuple[Verdict, str]:
    if lag == 0:
        if still_ms > IDLE_MS:
            return Verdict.IDLE, f"nothing is left to copy, nothing came for {duration(still_ms)}"
        return Verdict.OK, "nothing is left to copy"
    if still_ms > STUCK_MS:
        return Verdict.STUCK, f"{lag} records wait and nothing was copied for {duration(still_ms)}"
    if partition.state in _BACKLOG:
        return Verdict.CATCHING_UP, _BACKLOG[partition.state]
    return Verdict.OK, "it copies live"
