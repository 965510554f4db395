"""What a leader of the target has not of a copy, though its log is as long: told by its lineage.

    copied to 100                 ... 97 98 99 | marker          epoch 4
    who leads now had less        ... 97 | abort marker, batch   epoch 5, from 98 on

What is written after a cut, markers of aborted transactions too, fills its log up again, and the
next append is not below the last one. Where the epoch of before ends in it nothing can move: the
leader is asked before anything more is written (KIP-101, KIP-320). An epoch may end lower though
nothing is lost, where the same broker led on in another one and we did not see it: then the batch
says whether it is the one that we copied last.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    CorruptBatchError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import TargetOffset
from mirrorfleet.kafka.offsets import log_bounds, offset_for_leader_epoch
from mirrorfleet.kafka.stored import stored_batches
from mirrorfleet.kafka.together import all_of
from mirrorfleet.slots import target_loss

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.slots.runner import SlotRunner

ASK_S: Final = 2.0
"""For each of both questions; who does not tell is asked again with the next look."""
_AT_ONCE: Final = 8
"""Batches that are read side by side, each over a connection of its own."""


class Lineage:
    """The last leader epoch in which each target partition was known to have all that was copied.

    An owner that is new knows of none before its own: what the one before it did not notice it does
    not notice either.
    """

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._since: dict[TopicPartition, int] = {}

    def forget(self) -> None:
        """Know of no epoch."""
        self._since.clear()

    def moved(self, at: TopicPartition, epoch: int) -> None:
        """Another epoch has begun; what was copied in this one is to be there still."""
        self._since.setdefault(at, epoch)

    async def untold(self, led: Collection[TopicPartition]) -> set[TopicPartition]:
        """Of these that may not be written to now: nobody says what they have, or they lost some.

        What lost some is stopped. Raises: what a broker refuses that a retry cannot help.
        """
        runner = self._runner
        copied = {p.target: p for p in runner.slot.partitions.values() if _has_some(p)}
        for bare in set(led) - copied.keys():
            self._since.pop(bare, None)
        leaders = {at: runner.targets.of(*at) for at in led if at in copied}
        asked = {
            at: self._since.get(at, leader.epoch)
            for at, leader in leaders.items()
            if leader is not None
        }
        if not asked:
            return set()
        try:
            answers = await offset_for_leader_epoch(runner.target, asked, deadline_s=ASK_S)
        except (ConnectionLostError, DeadlineError, AuthenticationError):
            return set(asked)
        found: set[TopicPartition] = set()
        short: dict[CopyPartition, int] = {}
        for at in asked:
            answer, partition = answers[at], copied[at]
            if isinstance(answer, BrokerError):
                if answer.retriable:  # who may not ask goes on as the offsets say
                    found.add(at)
                    continue
            elif answer.end_offset < partition.committed.next_target:
                short[partition] = answer.end_offset
                continue
            self._since.pop(at, None)
        return found | await self._looked_into(short)

    async def _looked_into(self, short: Mapping[CopyPartition, int]) -> set[TopicPartition]:
        """Those that have not what was copied last, which are stopped, or do not tell in time.

        A log that is not filled up yet ends below it: that is asked first, and may be all.
        """
        found = {partition.target for partition in short}
        with suppress(ConnectionLostError, DeadlineError, AuthenticationError):
            await target_loss.check_ends(self._runner, list(short))
        cut = [p for p in short if p.fault and p.fault.reason is FaultReason.TARGET_TRUNCATED]
        for partition in cut:
            self._stopped(partition)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def look_into(partition: CopyPartition, end: int) -> None:
            async with gate:
                is_there = await _is_there(self._runner, partition)
            if is_there:
                self._since.pop(partition.target, None)
                found.remove(partition.target)
            elif is_there is not None:
                self._stop(partition, end)

        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_S):
                await all_of(look_into(p, end) for p, end in short.items() if p not in cut)
        return found

    def _stop(self, partition: CopyPartition, end: int) -> None:
        copied = partition.committed
        text = (
            f"{partition.target} has another history from {end} on than that of which"
            f" {copied.next_target} were copied: what it acknowledged there is gone"
        )
        fault = Fault(FaultReason.TARGET_TRUNCATED, copied.next_source, text)
        self._runner.stop_partition(partition, fault)
        self._stopped(partition)

    def _stopped(self, partition: CopyPartition) -> None:
        """What is queued comes behind the loss: nothing of it is to be sent."""
        self._since.pop(partition.target, None)
        self._runner.slot.hold_back(partition, 0.0)


def _has_some(partition: CopyPartition) -> bool:
    return partition.committed.records > 0 and target_loss.may_lack(partition)


async def _is_there(runner: SlotRunner, partition: CopyPartition) -> bool | None:
    """Whether the last copied record is where its position says; None where nobody tells.

    Where retention or compaction has taken it there is nothing to compare, and nothing amiss.
    """
    at, last = partition.target, TargetOffset(partition.committed.next_target - 1)
    try:
        start, _ = await log_bounds(runner.target, at)
        if last < start:
            return True
        topic = await runner.target.topic(at.topic, refresh=True)
        batches = stored_batches(runner.target, topic, at.partition, last, last + 1)
        async with aclosing(batches) as found:
            async for seen in found:
                header = seen.header
                if header.base_offset > last:
                    return True
                is_other = header.is_control or seen.aborted
                return not is_other and header.next_offset == last + 1
    except CorruptBatchError:
        return True  # it is there, and nobody can say more of it
    except MirrorfleetError:
        return None
    return True
