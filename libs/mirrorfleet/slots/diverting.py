"""Going on with the spare id of a slot, without the partitions that are left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.partition import begun_at, start_position
from mirrorfleet.core.errors import FencedError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.kafka.together import helped
from mirrorfleet.records.positions import Barrier, Quarantine
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import healing, rebuilding, taking
from mirrorfleet.slots.fencing import fence_settled
from mirrorfleet.slots.outgoing import Pipes
from mirrorfleet.slots.sending import Sender

if TYPE_CHECKING:
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

_log = logger(__name__)


async def divert(runner: SlotRunner) -> Sender:
    """Go on with the spare id, without the partitions that are left behind.

    Raises: FencedError when another one took the slot meanwhile; else as `taking.take`.
    """
    if runner.slot.fence is not None:
        runner.wedges.forget()
        return await taking.take(runner)  # which waits until it is lifted
    runner.move(SlotState.FENCING)
    runner.slot.forget_all()
    pipes = Pipes(runner)
    try:
        return await helped(_diverted(runner, pipes), pipes.made_ahead())
    except BaseException:
        pipes.close()
        raise


async def _diverted(runner: SlotRunner, pipes: Pipes) -> Sender:
    steps = [runner.clock.monotonic()]
    transactions = runner.wedges.spare_transactions()
    producer = await fence_settled(runner, transactions)
    steps.append(runner.clock.monotonic())
    sender = Sender(runner, transactions, producer, pipes)
    now_ms, kept = runner.clock.now_ms(), runner.slot.snapshots
    left = tuple(sorted(runner.wedges.left_behind))
    record = Quarantine(owner=runner.owner, producer=producer, partitions=left, time_ms=now_ms)
    learn = runner.doubts.learn  # the main id is its owner's: it may be asked about at any time
    try:
        found = await taking.commit_and_recall(runner, sender, [record], learn)
        steps += [runner.taken_at, runner.clock.monotonic()]
        taking.heed(runner, found.fence())
        if found.owner() != runner.owner:
            raise FencedError(f"slot {runner.number}: {found.owner()} took it meanwhile.")
        runner.slot.known, kept.quarantine = found.positions(), record
        kept.barrier = Barrier(owner=runner.owner, producer=producer, time_ms=now_ms)
        if not _is_as_committed(runner):  # what lost replicas may have lost positions, too
            await rebuilding.rebuild(runner, sender)
        for entry in runner.entries.values():
            if healing.is_left_behind(runner, entry.identity):
                _leave(runner, entry)
        await taking.admit_known(runner, sender)
    except BaseException:
        sender.close()
        raise
    runner.move(SlotState.COPYING)
    names = ", ".join(map(str, left))
    _log.warning("goes on without %s", names, extra=fields(slot=runner.number))
    taking.tell(runner, [*steps, runner.clock.monotonic()])
    return sender


def _is_as_committed(runner: SlotRunner) -> bool:
    """Whether all that goes on has the position that we committed last, a moment ago: then none is
    lost, and the map need not be asked.
    """
    known, before = runner.slot.known, runner.slot.remembered
    going_on = (one for one in runner.entries if not healing.is_left_behind(runner, one))
    return all(
        one in known
        and one in before
        and known[one].next_target == before[one].committed.next_target
        for one in going_on
    )


def leave_new(runner: SlotRunner) -> None:
    """The same of what has come into the catalog since: nothing else would tell of it."""
    for identity, entry in runner.entries.items():
        is_known = identity in runner.slot.partitions or identity in runner.unstarted
        if not is_known and healing.is_left_behind(runner, identity):
            _leave(runner, entry)


def _leave(runner: SlotRunner, entry: CatalogPartition) -> None:
    """Keep a partition apart, and say why it stands still."""
    known = runner.slot.known.get(entry.identity)
    position = known or start_position(entry.identity, SourceOffset(0), runner.clock.now_ms())
    left = begun_at(entry, position)
    text = f"{entry.target_topic}-{entry.identity.partition} takes no marker: too few replicas?"
    at = healing.NOWHERE if known is None or known.fault else known.next_source
    left.fault = Fault(FaultReason.QUARANTINED, at, text)
    before = runner.unstarted.get(entry.identity)
    left.reported = None if before is None else before.reported  # each abort of v1 comes by here
    runner.unstarted[entry.identity] = left
    runner.report_fault(left)
