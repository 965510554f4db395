"""One partition being copied: where it stands, what waits to be sent, what holds it up.

    committed.next_source      sent_to        walked_to              source offsets
    ────────┴──────────────────────┴──────────────┴──────────────>
     copied │ in the transaction   │ queued       │ not fetched yet

`walked_to` counts batches that were skipped (control, aborted) as well as copied ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from mirrorfleet.copying.withheld import Withheld
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.records import progress
from mirrorfleet.records.positions import Position
from mirrorfleet.wire.copybatch import (
    AbortedTransaction,
    BatchFault,
    CopyBatch,
    Dropped,
    FaultKind,
    NullKeys,
    Terms,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.copying.budget import FrameLease
    from mirrorfleet.copying.faults import Fault, FaultReason, Span
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.wire.copybatch import LateAbort, Walked
    from mirrorfleet.wire.k01_fetch import FetchedPartition

A_DROP: Final = 97
"""Bytes that a record takes up which policy dropped: a tuple, its offset, a place in a list."""
_NOTHING = TargetOffset(0)


class Pace(StrEnum):
    """Which fetch connection serves a partition: old backlog never delays the live tail."""

    LIVE = "live"
    CATCH_UP = progress.CATCH_UP


@dataclass(slots=True)
class Queued:
    """A batch that waits to be sent, with its stage stamps (seconds, monotonic)."""

    batch: CopyBatch
    lease: FrameLease
    fetched_at: float
    pace: Pace
    sent_at: float = 0.0


@dataclass(slots=True)
class SourceEnds:
    """What the last fetch answer said about the source partition (-1: not known yet)."""

    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1

    @classmethod
    def of(cls, part: FetchedPartition) -> Self:
        """As an answer that is no refusal says."""
        return cls(part.high_watermark, part.last_stable_offset, part.log_start_offset)


class LeftOut(NamedTuple):
    """Records that are not copied, because the rule or an operator (`request`) says so."""

    span: Span
    cause: FaultReason
    detail: str
    request: str = ""


@dataclass(slots=True, eq=False)
class CopyPartition:
    """The copying state of one partition; equal only to itself, so that it keys a dict cheaply."""

    entry: CatalogPartition
    committed: Position
    terms: Terms
    walked_to: SourceOffset
    walked_epoch: int
    queue: deque[Queued] = field(default_factory=deque)
    queued_bytes: int = 0
    rewinds: int = 0
    """How often it went back; an answer that was asked for before the last time is stale."""
    source: SourceEnds = field(default_factory=SourceEnds)
    pace: Pace = Pace.LIVE
    behind: int = 0
    """Answers in a row behind which there was more."""
    fault: Fault | None = None
    fault_since: float = 0.0
    reported: Fault | None = None
    """The fault that was written into the ledger, until the partition moves again."""
    strange: int = 0
    """How often the source did not know the topic while its name meant another one."""
    held_until: float = 0.0
    """Not fetched before this moment (monotonic seconds): its leader moves, or it is examined."""
    spent_until: float = 0.0
    """Its `throttle` is used up until this moment (monotonic seconds)."""
    away_since: float | None = None
    """Since when its source broker does not answer (monotonic seconds); None while it does, as far
    as known."""
    unreadable_since: float | None = None
    """Since when its source broker cannot read its log, answer after answer (monotonic seconds)."""
    replica: int | None = None
    """Node to fetch from instead of the leader, up to `replica_until` (monotonic seconds)."""
    replica_until: float = 0.0
    leader_until: float = 0.0
    """Its leader is fetched from up to this moment (monotonic seconds), and not told of our rack: a
    replica that it had named does not answer us."""
    room: int = 0
    """How much of it may wait before it is not fetched any more; 0 before that was asked."""
    omitted: int = 0
    """Aborted transactions that the source's broker did not list, since that was told last."""
    undecided: dict[int, int] = field(default_factory=dict)
    """Producers with transactional records of which no marker came yet: the first offset."""
    withheld: Withheld = field(default_factory=Withheld)
    """Those of them that are not sent before their marker came."""
    aborts: list[LateAbort] = field(default_factory=list)
    """Aborted transactions that are known from their markers alone, until a commit passes them."""
    copied_aborted: bool = False
    """Records of one were committed before the marker came; not told yet."""
    spoiled: bool = False
    """Something of one of them may be in the open transaction, which must not be committed."""
    dropped: list[Dropped] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    """What the ledger is told of with the commit that passes it."""
    first_timestamp: int = -1
    """Of the first record that came since it was begun or resumed."""
    last_timestamp: int = -1
    moved_at: float = 0.0
    """When `walked_to` last left `committed` without a commit (monotonic seconds)."""
    progress_at: float = 0.0
    """When a commit last moved this partition, or it was seen to be at the end, or to wait for its
    turn."""
    target: TopicPartition = field(init=False)
    """Where its batches go; the name of a copy never changes."""

    def __post_init__(self) -> None:
        self.target = self.entry.target

    @property
    def identity(self) -> PartitionIdentity:
        """What this partition is."""
        return self.entry.identity

    @property
    def at_end(self) -> bool:
        """Whether everything that a committed reader can see has been walked."""
        return 0 <= self.source.last_stable <= self.walked_to

    @property
    def reachable(self) -> bool:
        """Whether its source broker answers, as far as known; who is less urgent waits then."""
        return self.away_since is None

    @property
    def has_work(self) -> bool:
        """Whether a committed reader of the source could see records that are not copied.

        Markers alone count, unlike in `Slot.lag`: a commit that should pass them and fails is seen.
        """
        return self.source.last_stable > self.committed.next_source

    @property
    def sendable(self) -> bool:
        """Whether the head of the queue may be sent."""
        at = self.withheld.at
        return bool(self.queue) and (at is None or self.queue[0].batch.next_offset <= at)

    @property
    def waiting_bytes(self) -> int:
        """What is held of it until a commit: its queue, and what the ledger is still to be told."""
        return self.queued_bytes + A_DROP * len(self.dropped)

    @property
    def moved(self) -> bool:
        """Whether the position went on past the last commit."""
        return self.walked_to > self.committed.next_source

    @property
    def has_recovered(self) -> bool:
        """Whether what was told of it is over.

        Of a record it is not while that is tried again, however long an answer takes: only behind
        it, or where the source ends before it by now.
        """
        told = self.reported
        if told is None or self.fault is not None:
            return False
        is_behind = self.committed.next_source > told.offset or self.at_end
        return is_behind or not told.reason.at_a_record

    @property
    def looks_at_keys(self) -> bool:
        """Whether records are looked at one by one for missing keys."""
        return self.terms.null_keys is not NullKeys.ALLOW

    def take(self, *, limit: int | None = None, null_keys: NullKeys = NullKeys.ALLOW) -> None:
        """Set the terms anew from the catalog's; see `terms_of`.

        What the target has refused is tried once more where nothing waits before it.
        """
        left_out, refused = tuple(each.span for each in self.left_out), self.terms.refused
        if refused is not None and refused.offset <= self.committed.next_source:
            refused = None
        taken = terms_of(self.entry, limit=limit, null_keys=null_keys)
        self.terms = replace(taken, left_out=left_out, refused=refused)

    def take_anew(self) -> None:
        """The same, with nothing refused: the target may take it now."""
        self.terms = replace(self.terms, refused=None)
        self.take()

    def stop_before(self, fault: Fault) -> bool:
        """Go on as far as to a record that only the target knows to refuse, and find this there.

        False when nothing comes before it: then it can be stopped at once.
        """
        if fault.offset <= self.committed.next_source:
            return False
        refused = BatchFault(fault.offset, FaultKind(fault.reason), fault.detail)
        self.terms, self.fault = replace(self.terms, refused=refused), None
        return True

    def stand_no_longer(self) -> None:
        """Forget the fault, and what refusals taught if it followed from that.

        Otherwise what comes before it would be refused once more, each time it is tried again.
        """
        if self.fault is None or self.fault.reason.by_terms:
            self.take()
        self.fault, self.strange = None, 0

    def passed(self, next_source: SourceOffset) -> list[LeftOut]:
        """What was left out below a position."""
        return [each for each in self.left_out if each.span.end <= next_source]

    def forget_passed(self) -> None:
        """The commit that told of what was left out is done."""
        self.left_out = [e for e in self.left_out if e.span.end > self.committed.next_source]
        self.terms = replace(self.terms, left_out=tuple(each.span for each in self.left_out))

    def drops_passed(self, next_source: SourceOffset) -> list[Dropped]:
        """What a commit up to here tells of; what is walked again below the last one was told."""
        told = self.committed.next_source
        return [each for each in self.dropped if told <= each.offset < next_source]

    def forget_dropped(self) -> int:
        """The commit that told of drops is done: how many there were."""
        before = len(self.dropped)
        self.dropped = [e for e in self.dropped if e.offset >= self.committed.next_source]
        return before - len(self.dropped)

    @property
    def known_aborts(self) -> list[AbortedTransaction]:
        """What to add to the list of the next answer."""
        ahead = (each for each in self.aborts if each.marker >= self.walked_to)
        return [AbortedTransaction(each.producer_id, each.first_offset) for each in ahead]

    def learn(self, late: Sequence[LateAbort]) -> None:
        """The source aborted what has passed already; it does not when it is walked again."""
        self.aborts += late
        self.omitted += len(late)
        self.copied_aborted |= any(a.first_offset < self.committed.next_source for a in late)

    def commit(self, position: Position) -> None:
        """A commit moved it; what was spoiled after the last look at that was committed, too."""
        self.committed = position
        if self.terms.refused is not None and self.terms.refused.offset < position.next_source:
            self.terms = replace(self.terms, refused=None)
        if self.aborts:
            self.copied_aborted |= self.spoiled
            self.aborts = [each for each in self.aborts if each.marker >= position.next_source]

    def resume(self, left: CopyPartition) -> None:
        """Know again what was known when it was left, unless somebody copied on since."""
        if left.committed.next_source != self.committed.next_source:
            return
        self.first_timestamp, self.last_timestamp = left.first_timestamp, left.last_timestamp
        if left.has_work:  # so it has stood still since then
            self.source, self.progress_at = left.source, left.progress_at

    def walk_to(self, walked: Walked, now: float) -> None:
        """Go on behind what was walked, copied or not."""
        if walked.next_offset > self.walked_to:
            if not self.moved:
                self.moved_at = now
            self.walked_to, self.walked_epoch = walked.next_offset, walked.leader_epoch

    def rewind(self) -> None:
        """Forget all that is not committed: queued batches go, fetching starts at the commit.

        A record at which it stands is found again when what comes before it has been fetched.
        """
        fault = self.fault
        if fault is not None and fault.reason.at_a_record:
            self.fault = fault if fault.offset <= self.committed.next_source else None
        self.undecided, self.spoiled = {}, False
        self.withheld.trust()
        while self.queue:
            self.queue.popleft().lease.done()
        self.queued_bytes = 0
        self.rewinds += 1
        self.dropped.clear()
        at = self.committed
        self.walked_to, self.walked_epoch = at.next_source, at.leader_epoch
        if 0 <= self.source.last_stable < self.walked_to:
            self.ask_anew()  # past all that was seen: only an answer tells what is there
        elif self.at_end:
            self.pace, self.behind = Pace.LIVE, 0  # of a backlog that is over nobody asks again

    def ask_anew(self) -> None:
        """Forget where the source ended: the live lane is told where it does now."""
        self.source, self.pace, self.behind = SourceEnds(), Pace.LIVE, 0

    def spend(self, answer_bytes: int, now: float) -> None:
        """Count what was read against its `throttle`: bytes a second, as the source stores them.

        Connections side by side may bring more than a second's worth; that is paid off after it.
        """
        if self.entry.throttle is not None:
            self.spent_until = max(now, self.spent_until) + answer_bytes / self.entry.throttle


def terms_of(
    entry: CatalogPartition, *, limit: int | None = None, null_keys: NullKeys = NullKeys.ALLOW
) -> Terms:
    """What the target takes; `limit` lowers the batch size.

    Keys are only looked at after the target refused a record: a look costs decompression.
    """
    size = entry.target_max_batch_bytes
    return Terms(
        max_batch_bytes=size if limit is None else min(size, limit),
        max_alone_bytes=size,
        target_append_time=entry.target_append_time,
        null_keys=null_keys,
    )


def limits_of(entry: CatalogPartition) -> tuple[object, ...]:
    """What of an entry decides which records the target takes."""
    return (terms_of(entry), entry.target_compacted, entry.null_keys)


def start_position(
    identity: PartitionIdentity,
    start: SourceOffset,
    now_ms: int,
    next_target: TargetOffset = _NOTHING,
) -> Position:
    """The first position of a partition: nothing copied yet, but perhaps by an incarnation before.

    Up to `next_target` the target has that: also of it a loss must be noticed.
    """
    return Position(
        identity=identity,
        next_source=start,
        leader_epoch=-1,
        next_target=next_target,
        records=0,
        bytes=0,
        time_ms=now_ms,
    )


def begun_at(entry: CatalogPartition, position: Position) -> CopyPartition:
    """A partition that is copied from a committed position on."""
    return CopyPartition(
        entry=entry,
        committed=position,
        terms=terms_of(entry),
        walked_to=position.next_source,
        walked_epoch=position.leader_epoch,
    )
