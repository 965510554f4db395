"""What is to be thought of a partition: numbered rules over what was measured, first match wins.

The rules are those of Burrow (STOP, STALL, WARN) where it has them, on the committed position of
the mirror instead of a group's commits, plus the mirror's own word and what cannot be seen. All
are functions of `Facts`; time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.records.overview import STALE_MS, duration
from mirrorfleet.records.progress import FAULTED, PAUSED, WAITING
from mirrorfleet.records.samples import Verdict

RULE_MOST: Final = 300
"""Characters of a rule's text: a fault may quote a broker at length."""


class Trend(StrEnum):
    """Where the lag is going, over the last ten seconds or so."""

    UNKNOWN = "unknown"
    SHRINKS = "shrinks"
    LASTS = "lasts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Milliseconds that the rules allow."""

    allowed_ms: int = 10_000
    """Time lag up to this is fine."""
    silent_ms: int = STALE_MS
    """A worker reports every second; after this it is not at work."""
    stuck_ms: int = 15_000
    """Without a move while records wait; a slot changes hands in less."""
    unseen_ms: int = 15_000
    """Since the source's end was last seen."""
    fresh_ms: int = 5_000
    """An end of this age still shows that nothing waits."""
    idle_ms: int = 30_000
    """Since the source's end last moved."""
    held_ms: int = 60_000
    """Since the last stable offset moved while records wait above it."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """One partition as of a moment. Ages in ms; None is "not known"."""

    state: str
    fault: str
    trouble: str
    """Why its slot is not copied; empty while it is."""
    is_blind: bool = False
    """Whether we could not see it if the worker spoke."""
    silent_ms: int | None
    """Since the worker's last word; None when there never was one."""
    unseen_ms: int | None
    """Since the source's end was last seen; None when it never was."""
    beyond: int
    """Offsets by which the position is above the source's end; 0 is right."""
    lag_records: int | None
    time_lag_ms: int | None
    unmoved_ms: int
    """Since the position last moved, or the first record that waits could be read."""
    end_unmoved_ms: int
    held_records: int
    """Offsets between the last stable one and the high watermark: open transactions."""
    held_ms: int
    """Since one of them is open and the end has not moved."""
    trend: Trend
    before: Verdict | None
    """The last verdict that was told."""


Rule = Callable[[Facts, Limits], tuple[Verdict, str] | None]


def judge(facts: Facts, limits: Limits) -> tuple[Verdict, str]:
    """The verdict, and the rule that gave it in words."""
    for rule in RULES:
        found = rule(facts, limits)
        if found is not None:
            verdict, text = found
            return verdict, text[:RULE_MOST]
    return Verdict.UNKNOWN, "no rule fits"


def _paused(facts: Facts, _: Limits) -> tuple[Verdict, str] | None:
    return (Verdict.STOPPED, "paused in the catalog") if facts.state == PAUSED else None


def _silent(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    """Burrow's STOP: nobody commits any more."""
    if facts.silent_ms is not None and facts.silent_ms <= limits.silent_ms:
        return None
    if facts.is_blind and facts.before is not Verdict.STOPPED:
        return Verdict.UNKNOWN, "the target does not tell here whether its worker has written"
    if facts.silent_ms is None:
        return Verdict.STOPPED, "no worker has ever reported it"
    return Verdict.STOPPED, f"STOP: its worker has been silent for {duration(facts.silent_ms)}"


def _faulted(facts: Facts, _: Limits) -> tuple[Verdict, str] | None:
    if facts.state == FAULTED or facts.fault:
        return Verdict.FAULTED, f"the mirror stopped it: {facts.fault or 'no reason given'}"
    return None


def _untaken(facts: Facts, _: Limits) -> tuple[Verdict, str] | None:
    if facts.trouble:
        return Verdict.STOPPED, f"STOP: its slot is not copied: {facts.trouble}"
    return None


def _unseen(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    if facts.unseen_ms is None:
        return Verdict.UNKNOWN, "the source's end has not been seen yet"
    if facts.unseen_ms > limits.unseen_ms:
        age = duration(facts.unseen_ms)
        return Verdict.UNKNOWN, f"the source's end has not been seen for {age}"
    if facts.lag_records is None and not facts.beyond:
        # too old to say that nothing waits, too young to cry: a leader may be moving
        age = duration(facts.unseen_ms)
        return facts.before or Verdict.UNKNOWN, f"the source's end was last seen {age} ago"
    if facts.beyond:
        text = f"the source ends {facts.beyond} offsets below the position: its log was cut"
        return Verdict.UNKNOWN, text
    return None


def _held(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    if facts.held_records and not facts.lag_records and facts.held_ms > limits.held_ms:
        age = duration(facts.held_ms)
        return (
            Verdict.STUCK,
            f"an open transaction at the source holds {facts.held_records} offsets back for {age}",
        )
    return None


def _nothing_waits(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    if facts.lag_records != 0:
        return None
    if facts.end_unmoved_ms > limits.idle_ms:
        return Verdict.IDLE, f"all copied; the source is idle for {duration(facts.end_unmoved_ms)}"
    return Verdict.OK, "all copied"


def _stuck(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    """Burrow's STALL: the position stands still although there is something to copy."""
    if facts.unmoved_ms > limits.stuck_ms:
        age, waits = duration(facts.unmoved_ms), f"{facts.lag_records} offsets wait"
        return Verdict.STUCK, f"STALL: the position has not moved for {age} while {waits}"
    return None


def _in_time(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    if facts.time_lag_ms is not None and facts.time_lag_ms <= limits.allowed_ms:
        return Verdict.OK, f"within {duration(limits.allowed_ms)} of the source"
    return None


def _late(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    """Burrow's WARN: the lag does not shrink."""
    if facts.time_lag_ms is None:
        by = f"{facts.lag_records} offsets behind"
    else:
        fine = duration(limits.allowed_ms)
        by = f"{duration(facts.time_lag_ms)} behind, over the {fine} that are fine"
    if facts.state == WAITING:
        return Verdict.CATCHING_UP, f"{by}; its worker has a more urgent backlog"
    match facts.trend:
        case Trend.SHRINKS:
            return Verdict.CATCHING_UP, f"{by}, and it shrinks"
        case Trend.LASTS:
            return Verdict.BEHIND, f"WARN: {by}, and it does not shrink"
        case Trend.UNKNOWN:
            still = facts.before in {Verdict.BEHIND, Verdict.CATCHING_UP}
            verdict = facts.before if still and facts.before else Verdict.CATCHING_UP
            return verdict, f"{by}; too early to say whether it shrinks"


RULES: Final[tuple[Rule, ...]] = (
    _paused,
    _silent,
    _faulted,
    _untaken,
    _unseen,
    _held,
    _nothing_waits,
    _stuck,
    _in_time,
    _late,
)
"""In this order: what explains most comes first."""
