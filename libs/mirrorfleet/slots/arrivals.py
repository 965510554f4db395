"""What a fetch answer does to a partition: its records are queued, or its refusal is acted upon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import replicas
from mirrorfleet.slots.healing import source_denied

if TYPE_CHECKING:
    from mirrorfleet.copying.answer import Answer
    from mirrorfleet.copying.budget import FrameLease
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import SourceOffset
    from mirrorfleet.kafka.fetcher import FetchedPartition
    from mirrorfleet.slots.runner import SlotRunner

MOVING_S: Final = 0.1
"""A partition whose leader moves is left out of fetches this long."""

UNREADABLE_S: Final = 30.0
"""A broker whose disk fails gives its partitions to others by then."""
UNREADABLE_AGAIN_S: Final = 1.0

UNREADABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""What a broker says that cannot read its own log."""

_log = logger(__name__)


def deliver(
    runner: SlotRunner,
    partition: CopyPartition,
    buffer: bytes | bytearray,
    answer: Answer,
    lease: FrameLease,
) -> None:
    """Queue the records of one partition; what stops it is reported.

    One that begins or ends to catch up changes its lane, which may have to be started.
    """
    now, pace = runner.clock.monotonic(), partition.pace
    was_idle = _is_idle(partition)  # until now: of a partition without news no answer tells
    runner.slot.answered(partition, buffer, answer, lease, now)
    partition.spend(answer.end - answer.start, now)
    partition.unreadable_since = None
    if partition.pace is not pace:
        runner.reroute()
    if partition.omitted or partition.copied_aborted:
        _tell_omitted(partition)
    if partition.fault is not None:
        runner.report_fault(partition)
    elif was_idle or _is_idle(partition):
        partition.progress_at = now


def _is_idle(partition: CopyPartition) -> bool:
    return partition.at_end and not partition.moved


def _tell_omitted(partition: CopyPartition) -> None:
    """Other consumers of that broker are handed records of aborted transactions."""
    if partition.copied_aborted:
        _log.error(
            "records of an aborted transaction were copied before the source said so",
            extra=fields(topic=partition.entry.target_topic, partition=partition.target.partition),
        )
        partition.copied_aborted = False
    _log.warning(
        "the source's broker left aborted transactions out of its list",
        extra=fields(
            topic=partition.entry.source_topic,
            partition=partition.identity.partition,
            offset=partition.walked_to,
            count=partition.omitted,
        ),
    )
    partition.omitted = 0


def refused(
    runner: SlotRunner, partition: CopyPartition, part: FetchedPartition, node: int
) -> None:
    """Stop the partition, look into its history, or follow its leader; `node` refused it."""
    now = runner.clock.monotonic()
    if replicas.refused(runner, partition, node, now):
        pass
    elif part.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = source_denied(runner, part.topic)
        fault = Fault(FaultReason.SOURCE_DENIED, partition.walked_to, text)
        runner.stop_partition(partition, fault)
    elif part.error is ErrorCode.OFFSET_OUT_OF_RANGE or part.diverging_epoch is not None:
        partition.held_until = now + 1.0
        runner.examine(partition)
    elif part.error in UNREADABLE:
        _unreadable(runner, partition, part.error, now)
    else:
        # Stale metadata, an election, a replica that lags, a topic that comes or goes.
        partition.held_until = now + MOVING_S
        runner.source_moved(partition, part.error)
    _log.info(
        "the source refused a fetch",
        extra=fields(
            link=str(runner.link),
            topic=part.topic,
            partition=part.partition,
            offset=partition.walked_to,
            error=part.error.name,
        ),
    )


def unreadable_ahead(
    runner: SlotRunner, partition: CopyPartition, offset: SourceOffset, error: ErrorCode
) -> None:
    """Look again a while later: what it means is judged when that offset is in turn.

    A segment of a tiered log may be gone, with all before it there, which is delivered first.
    """
    partition.held_until = runner.clock.monotonic() + UNREADABLE_AGAIN_S
    _log.info(
        "the source cannot read its log ahead of us",
        extra=fields(
            link=str(runner.link),
            topic=partition.entry.source_topic,
            partition=partition.identity.partition,
            offset=offset,
            error=error.name,
        ),
    )


def _unreadable(runner: SlotRunner, partition: CopyPartition, error: ErrorCode, now: float) -> None:
    """Ask again, and say that it stands still once that has lasted: nobody else would."""
    partition.held_until = now + UNREADABLE_AGAIN_S
    if partition.unreadable_since is None:
        partition.unreadable_since = now
    if now - partition.unreadable_since >= UNREADABLE_S:
        text = f"{runner.link.source} cannot read its log there: {error.name}"
        fault = Fault(FaultReason.SOURCE_CORRUPT, partition.walked_to, text)
        runner.stop_partition(partition, fault)
    runner.source_moved(partition, error)
