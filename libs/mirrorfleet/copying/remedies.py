"""What is done about a partition that stands still: by its rule, or because an operator asks.

    cause                    fail   record-gap                      recopy
    retention overtook       stop   behind the lost range           stop
    source truncated         stop   anew, from the divergence       anew, from the divergence
    source recreated         stop   anew, from its start (by sync)  the same
    target recreated, short  stop   stop                            anew, from the missing range
    a record not taken       stop   without that record             stop

A record that is not taken is waited with for a while (`slots/mending.py`). "Anew" is another
incarnation of the partition: an offset means something else from there on, on one side or on both.
What the source no longer has of a missing range is a gap. Requests say which range they mean, so
that one that comes late, or twice, finds another state and does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import TARGET_LOSSES, FaultReason, Span
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.commands import Action
from mirrorfleet.records.incarnations import LossCause

if TYPE_CHECKING:
    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.records.commands import Command


class SourceLoss(StrEnum):
    """A rule's word for what is done about a loss (`on_source_loss`)."""

    FAIL = "fail"
    RECORD_GAP = "record-gap"
    RECOPY = "recopy"


class Remedy(StrEnum):
    """A way on."""

    GO_ON = "go-on"
    """Behind the range, in the same history."""
    LEAVE_OUT = "leave-out"
    """Copy up to the range, and what is behind it."""
    BEGIN_ANEW = "begin-anew"
    """A new incarnation, which `sync` gives."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do: the range that the ledger names, and where copying goes on.

    `to` None: at the begin of the log, wherever that is.
    """

    remedy: Remedy
    span: Span
    to: SourceOffset | None
    request: str = ""
    cause: str = ""
    """When that is not the fault's reason."""


_OTHER_HISTORY: Final = TARGET_LOSSES | {FaultReason.SOURCE_RECREATED, FaultReason.SOURCE_TRUNCATED}

_BY_POLICY: Final = {
    (FaultReason.RETENTION_OVERTOOK, SourceLoss.RECORD_GAP): Remedy.GO_ON,
    (FaultReason.SOURCE_TRUNCATED, SourceLoss.RECORD_GAP): Remedy.BEGIN_ANEW,
    (FaultReason.SOURCE_TRUNCATED, SourceLoss.RECOPY): Remedy.BEGIN_ANEW,
    (FaultReason.TARGET_RECREATED, SourceLoss.RECOPY): Remedy.BEGIN_ANEW,
    (FaultReason.TARGET_TRUNCATED, SourceLoss.RECOPY): Remedy.BEGIN_ANEW,
    (FaultReason.RECORD_TOO_LARGE, SourceLoss.RECORD_GAP): Remedy.LEAVE_OUT,
    (FaultReason.TIMESTAMP_REFUSED, SourceLoss.RECORD_GAP): Remedy.LEAVE_OUT,
    (FaultReason.KEY_MISSING, SourceLoss.RECORD_GAP): Remedy.LEAVE_OUT,
}
"""Whatever is not here stops. A recreated source is begun anew by `sync` itself."""


def by_policy(fault: Fault, policy: str) -> Step | None:
    """The step that the rule allows; None: the partition stands until somebody decides."""
    span = fault.span
    remedy = _BY_POLICY.get((fault.reason, SourceLoss(policy)))
    if remedy is None or span is None:
        return None
    if remedy is Remedy.BEGIN_ANEW:
        to = min(max(fault.oldest or span.first, span.first), span.end)
        return None if fault.lost is None else Step(remedy, span, to)
    return Step(remedy, span, span.end)


def by_request(
    fault: Fault, stands_at: SourceOffset, command: Command, source_end: SourceOffset | None = None
) -> Step | str:
    """The step that an operator asks for, or why it is refused; `stands_at` is the position.

    `source_end`: where the source's log ends, if anybody knows.
    """
    span = fault.span
    asked = Span(command.first, command.end)
    if span is None:
        return f"it stands before the first record: {fault}"
    if fault.reason in TARGET_LOSSES and fault.lost is None and fault.comparable:
        return f"what is missing is still being looked for: {fault}"
    match command.action:
        case Action.SEEK if source_end is not None and asked.end > source_end:
            return f"the source ends at {source_end}, before {asked.end}: {fault}"
        case Action.SEEK:
            return _seek(fault, stands_at, asked, command.id)
        case _ if not fault.comparable:
            return f"nobody knows what is missing, only --seek says where to go on: {fault}"
        case Action.SKIP if not fault.reason.by_terms:
            return f"no single record is in the way: {fault}"
        case Action.ACCEPT_GAP if fault.reason.heals and not fault.reason.by_terms:
            return f"nothing is lost: {fault}"
    if asked != span:
        return f"what it stands at is {_words(span)}, not {_words(asked)}: {fault}"
    return _accepted(fault, span, command.id)


def _accepted(fault: Fault, span: Span, request: str) -> Step:
    """Go on without what is lost."""
    if fault.reason.by_terms:
        return Step(Remedy.LEAVE_OUT, span, span.end, request)
    if fault.reason is FaultReason.SOURCE_TRUNCATED:
        return Step(Remedy.BEGIN_ANEW, span, span.first, request)
    if fault.reason is FaultReason.SOURCE_RECREATED:
        return Step(Remedy.BEGIN_ANEW, span, None, request)
    if fault.reason in TARGET_LOSSES:
        return Step(Remedy.BEGIN_ANEW, span, span.end, request)
    return Step(Remedy.GO_ON, span, span.end, request)


def _seek(fault: Fault, stands_at: SourceOffset, asked: Span, request: str) -> Step | str:
    if asked.first != stands_at:
        return f"it stands at {stands_at} now, not at {asked.first}"
    if fault.reason in _OTHER_HISTORY:
        return _seek_anew(fault, asked, request)
    if asked.end < stands_at:
        back = Span(asked.end, stands_at)
        return Step(Remedy.BEGIN_ANEW, back, asked.end, request, LossCause.REWOUND)
    if asked.end == stands_at:
        return f"it stands at {stands_at} already: {fault}"
    return Step(Remedy.GO_ON, asked, asked.end, request)


def _seek_anew(fault: Fault, asked: Span, request: str) -> Step:
    """Where a history has ended, in terms of what is lost and what is copied again."""
    to = asked.end
    lost = fault.lost or Span(min(to, asked.first), asked.first)
    if fault.reason is FaultReason.SOURCE_RECREATED:
        return Step(Remedy.BEGIN_ANEW, lost, to, request)  # `to` is in the new topic
    if fault.reason in TARGET_LOSSES:
        span = Span(lost.first, to) if to > lost.first else Span(to, lost.end)
        return Step(Remedy.BEGIN_ANEW, span, to, request)
    if to < lost.first:
        return Step(Remedy.BEGIN_ANEW, Span(to, lost.end), to, request, LossCause.REWOUND)
    return Step(Remedy.BEGIN_ANEW, Span(lost.first, max(lost.end, to)), to, request)


def passed_over(fault: Fault, step: Step) -> Span | None:
    """What a request leaves out of the source's new log: other records than the lost ones.

    The ledger's range is of the log that has ended, and they have the offsets of it, or lower ones.
    """
    if not step.request or step.to is None or fault.reason in TARGET_LOSSES:
        return None
    first = SourceOffset(0) if fault.reason is FaultReason.SOURCE_RECREATED else step.span.first
    return Span(first, step.to) if first < step.to else None


def _words(span: Span) -> str:
    return f"{span.first}..{span.end}"
