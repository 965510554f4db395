"""When history is not what it was: which loss the source's own numbers prove.

Loss is only declared when two looks, each at the leader of the current epoch, agree; a stale
leader and a follower also answer OFFSET_OUT_OF_RANGE (KIP-392, KIP-320).

    log start ........ position ........ log end        fine
    position < log start                                retention overtook it
    log end < position                                  the log was truncated below it
    lineage of the last epoch ends below the position   it was truncated and written again
    lineage has no such epoch                           the same, by two such elections, or a log
                                                        that was put back: its leader never had
                                                        what we read last

Then nobody knows where the histories part: the leader tells where an earlier epoch ends in its
log, and we do not keep where it ended in the one that we read. Of a compacted topic it says
nothing: a replica that was filled after compaction never saw an epoch whose records were cleaned.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.core.ids import SourceOffset, TopicId


class Look(NamedTuple):
    """What the leader says: its log [start, end), and where our last epoch ends (-1: unknown)."""

    log_start: int
    log_end: int
    epoch_end: int = -1
    lacks_epoch: bool = False
    """There is no record of our last epoch in its log: `epoch_end` is where an earlier one ends.

    -1 with it: all epochs that it has are earlier, as in a log that was put back from a disk. A
    leader knows its own, which is never below one that was read (LeaderEpochFileCache).
    """


def loss(position: SourceOffset, look: Look) -> Fault | None:
    """The loss that `look` proves for a partition that goes on at `position`, if any."""
    if position < look.log_start:
        return Fault(
            FaultReason.RETENTION_OVERTOOK,
            position,
            f"source records [{position}, {look.log_start}) were deleted before they were copied",
            Span(position, SourceOffset(look.log_start)),
        )
    diverged = look.log_end if look.epoch_end < 0 else min(look.log_end, look.epoch_end)
    if diverged < position:
        return Fault(
            FaultReason.SOURCE_TRUNCATED,
            position,
            f"the source log was truncated to {diverged}; [{diverged}, {position}) was copied from"
            " a history that the source no longer has",
            Span(SourceOffset(diverged), position),
        )
    if look.lacks_epoch:
        return Fault(
            FaultReason.SOURCE_TRUNCATED,
            position,
            "the source log is not the one that was copied: it has nothing of the leader epoch that"
            f" was copied last, below {position}; where the two part nobody knows",
            comparable=False,
        )
    return None


def made_again(topic: str, now: TopicId, lost: Span | None) -> str:
    """The text for a topic that is another one under its name; of what is lost, for who decides."""
    text = f"{topic} was deleted and created again: id {now}"
    return text if lost is None else f"{text}; {lost} of the one before was not copied"


def may_be_cleaned(look: Look) -> bool:
    """Whether compaction explains that our last epoch is not there: a later one is."""
    return look.lacks_epoch and look.epoch_end >= 0


def both(first: Fault | None, second: Fault | None) -> Fault | None:
    """What two looks prove together; where the log ends moves while it is written to.

    Of two points at which histories part the lower one holds: from there on all is copied.
    """
    if first is None or second is None or first.reason is not second.reason:
        return None
    before, now = first.lost, second.lost
    if before is None or now is None:
        return second if before is now else None
    return first if before.first < now.first else second
