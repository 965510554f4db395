"""What can stop a partition, and what an error code of a produce answer asks us to do.

Tables only. A fault belongs to one partition; its neighbours never notice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.incarnations import LossCause
from mirrorfleet.records.progress import BEFORE_THE_FIRST
from mirrorfleet.wire.copybatch import FaultKind


class FaultReason(StrEnum):
    """Why a partition stands still; the value is its metric label."""

    RECORD_TOO_LARGE = "record-too-large"
    KEY_MISSING = "key-missing"
    TIMESTAMP_REFUSED = "timestamp-refused"
    RECORD_REFUSED = "record-refused"
    SOURCE_CORRUPT = "source-corrupt"
    SOURCE_DENIED = "source-denied"
    TARGET_DENIED = "target-denied"
    RETENTION_OVERTOOK = "retention-overtook"
    SOURCE_TRUNCATED = LossCause.SOURCE_TRUNCATED.value
    SOURCE_RECREATED = LossCause.SOURCE_RECREATED.value
    SOURCE_MISSING = "source-missing"
    TARGET_RECREATED = LossCause.TARGET_RECREATED.value
    TARGET_TRUNCATED = LossCause.TARGET_TRUNCATED.value
    TARGET_MISSING = "target-missing"
    POSITION_LOST = "position-lost"
    QUARANTINED = "quarantined"

    @property
    def heals(self) -> bool:
        """Whether the cause can go away without a word to us, so that we look again."""
        return self in _HEALING

    @property
    def by_terms(self) -> bool:
        """Whether it follows from what the target takes, as the catalog has it."""
        return self in _BY_TERMS

    @property
    def at_a_record(self) -> bool:
        """Whether it is over only behind its offset."""
        return self.by_terms or self is FaultReason.SOURCE_CORRUPT


_HEALING: Final = frozenset(
    {
        FaultReason.SOURCE_DENIED,
        FaultReason.TARGET_DENIED,
        FaultReason.SOURCE_MISSING,
        FaultReason.TARGET_MISSING,
        FaultReason.RECORD_TOO_LARGE,
        FaultReason.TIMESTAMP_REFUSED,
        FaultReason.KEY_MISSING,
        FaultReason.RECORD_REFUSED,
    }
)

_BY_TERMS: Final = frozenset(
    {
        FaultReason.RECORD_TOO_LARGE,
        FaultReason.TIMESTAMP_REFUSED,
        FaultReason.KEY_MISSING,
        FaultReason.RECORD_REFUSED,
    }
)

_OF_BATCH: Final = {
    FaultKind.CORRUPT: FaultReason.SOURCE_CORRUPT,
    FaultKind.TOO_LARGE: FaultReason.RECORD_TOO_LARGE,
    FaultKind.NULL_KEY: FaultReason.KEY_MISSING,
    FaultKind.TIMESTAMP: FaultReason.TIMESTAMP_REFUSED,
    FaultKind.REFUSED: FaultReason.RECORD_REFUSED,
}


TARGET_LOSSES: Final = frozenset({FaultReason.TARGET_RECREATED, FaultReason.TARGET_TRUNCATED})
"""The target lost what was copied: `recopy` goes back for it, and what it is, the map tells."""


class Span(NamedTuple):
    """Source offsets [first, end)."""

    first: SourceOffset
    end: SourceOffset

    def __str__(self) -> str:
        return f"[{self.first}, {self.end})"


@dataclass(frozen=True, slots=True)
class Fault:
    """A partition stands at `offset` (source) because of `reason`; `detail` is for a person.

    `lost` is what a loss is about, exactly: source offsets that are not on both sides; `records`
    is how many there are, where that can be proved. What the target lost can be copied again from
    `oldest` on, where the source begins; if it is not `comparable` with the map, nobody will ever
    know what that is.
    """

    reason: FaultReason
    offset: SourceOffset
    detail: str
    lost: Span | None = None
    records: int | None = None
    oldest: SourceOffset | None = None
    comparable: bool = True

    @property
    def span(self) -> Span | None:
        """The lost range, or the record at which the partition stands; None before the first."""
        if self.lost is not None or self.offset < 0:
            return self.lost
        return Span(self.offset, SourceOffset(self.offset + 1))

    def is_again(self, told: Fault) -> bool:
        """Whether that is this one, found again: bad bytes may fail in other words each time."""
        if self.reason is FaultReason.SOURCE_CORRUPT:
            return (self.reason, self.offset) == (told.reason, told.offset)
        return self == told

    def __str__(self) -> str:
        where = f"at source offset {self.offset}" if self.offset >= 0 else BEFORE_THE_FIRST
        return f"{self.reason} {where}: {self.detail}"


_STANDS: Final = re.compile(
    f"([a-z-]+) (?:at source offset ([0-9]+)|{re.escape(BEFORE_THE_FIRST)}): "
)


def standing_in(text: str) -> tuple[str, SourceOffset] | None:
    """Reason and offset of a fault from its text, as progress carries it.

    The offset is -1 before the first record, as in `Fault`. None: that is the text of no fault.
    """
    found = _STANDS.match(text)
    return (found[1], SourceOffset(int(found[2] or -1))) if found else None


def reason_of(kind: FaultKind) -> FaultReason:
    """The reason that a fault of the batch engine stands for."""
    return _OF_BATCH[kind]


_CONSEQUENCES: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.TRANSACTION_ABORTABLE}
)
"""What follows from the refusal of another batch, or of the whole transaction."""


def blames_the_batch(code: ErrorCode) -> bool:
    """Whether the same batch would be refused again and again.

    Kafka calls CORRUPT_MESSAGE retriable: it could have been damaged on its way. And when something
    in a broker fails, it gives each partition of a request UNKNOWN_SERVER_ERROR.
    """
    if code is ErrorCode.CORRUPT_MESSAGE:
        return True
    says_nothing = code is ErrorCode.UNKNOWN_SERVER_ERROR or code in _CONSEQUENCES
    return not (code.retriable or says_nothing)


class Action(StrEnum):
    """What to do after an error in a produce answer."""

    SEND_AGAIN = "send-again"
    """Proven not appended: the same batch with the same sequence, before anything follows it."""
    ABORT = "abort"
    """Outcome unknown or leader moved: abort the transaction and start from the last commit."""
    SPLIT = "split"
    """Abort; this batch is too large for the target: cut it smaller."""
    INSPECT = "inspect"
    """Abort; the target refuses a record of this batch: look for it and fault or drop it."""
    DENIED = "denied"
    """Abort; fault this partition and ask again later."""
    FENCED = "fenced"
    """Drop the slot: another owner has the transactional id, or the id is unknown."""
    SLOT_DENIED = "slot-denied"
    """The transactional id itself is not allowed: the slot waits and asks again."""


# 51 and 19 before the first append of a transaction come from the coordinator: the partition
# was not added, so nothing was appended (ReplicaManager.handleProduceAppend, 4.x).
_SEND_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

FENCING: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Codes after which the slot is not ours any more, whoever says them."""

_ACTIONS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: Action.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: Action.SPLIT,
    ErrorCode.INVALID_RECORD: Action.INSPECT,
    ErrorCode.INVALID_TIMESTAMP: Action.INSPECT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Action.DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Action.SLOT_DENIED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Action.SLOT_DENIED,
    **dict.fromkeys(FENCING, Action.FENCED),
}


def produce_action(code: ErrorCode, *, first: bool) -> Action:
    """What a refused produce asks for; `first`: nothing of the transaction was appended there."""
    if first and code in _SEND_AGAIN:
        return Action.SEND_AGAIN
    return _ACTIONS.get(code, Action.ABORT)
