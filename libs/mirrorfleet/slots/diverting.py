"""Going on with the spare id of a slot, without the partitions that are left behind."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.partition import begun_at, start_position
from mirrorfleet.core.errors import FencedError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.kafka.together import both_of
from mirrorfleet.records.positions import Barrier, Quarantine
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import endings, healing, rebuilding, taking
from mirrorfleet.slots.outgoing import Pipes, RetakeError
from mirrorfleet.slots.sending import Sender

if TYPE_CHECKING:
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

_log = logger(__name__)


class OtherOwnerError(FencedError):
    """Raised when another one's barrier stands before our record."""


async def divert(runner: SlotRunner) -> Sender:
    """Go on with the spare id, without the partitions that are left behind.

    Raises: FencedError when another one took the slot meanwhile; else as `taking.take`.
    """
    if runner.slot.fence is not None:
        runner.wedges.forget()
        runner.spare.rest()
        return await taking.take(runner)  # which waits until it is lifted
    runner.move(SlotState.FENCING)
    runner.slot.forget_all()
    began = runner.clock.monotonic()
    if (ready := runner.spare.handed_over()) is not None:
        runner.doubts.reached_anew(ready.pipes.drop_closed())
        sender = Sender(runner, ready.transactions, ready.producer, ready.pipes)
        return await taking.connected(
            (ready.transactions, ready.pipes), _at_once(runner, sender, began)
        )
    made = endings.transactions_of(runner, runner.wedges.spare_id), Pipes(runner)
    return await taking.connected(made, _fenced(runner, made, began))


async def _at_once(runner: SlotRunner, sender: Sender, began: float) -> Sender:
    """With the id that was taken before: whoever has taken it since makes the first commit fail."""
    try:
        return await _diverted(runner, sender, began)
    except OtherOwnerError:
        raise
    except FencedError as error:
        raise RetakeError("the spare id was taken anew since we took it beforehand") from error


async def _fenced(runner: SlotRunner, made: tuple[Transactions, Pipes], began: float) -> Sender:
    return await _diverted(runner, await taking.fenced(runner, *made), began)


async def _diverted(runner: SlotRunner, sender: Sender, began: float) -> Sender:
    steps, is_certain = [began, runner.clock.monotonic()], not runner.wedges.is_undecided
    now_ms, kept = runner.clock.now_ms(), runner.slot.snapshots
    left = tuple(sorted(runner.wedges.left_behind))
    producer = sender.producer
    record = Quarantine(owner=runner.owner, producer=producer, partitions=left, time_ms=now_ms)
    is_whole = False

    async def look() -> None:
        nonlocal is_whole
        # the main id is its owner's: it may be asked about at any time
        is_whole, _ = await both_of(_has_segments(runner), runner.doubts.learn())

    found = await taking.commit_and_recall(runner, sender, [record], look)
    steps += [runner.taken_at, runner.clock.monotonic()]
    taking.heed(runner, found.fence())
    if found.owner() != runner.owner:
        raise OtherOwnerError(f"slot {runner.number}: {found.owner()} took it meanwhile.")
    runner.slot.known, kept.quarantine = found.positions(), record
    kept.barrier = Barrier(owner=runner.owner, producer=producer, time_ms=now_ms)
    if not (is_certain and is_whole and _is_as_committed(runner)):
        await rebuilding.rebuild(runner, sender)  # what lost replicas may have lost positions, too
    for entry in runner.entries.values():
        if healing.is_left_behind(runner, entry.identity):
            _leave(runner, entry)
    await taking.admit_known(runner, sender)
    runner.wedges.is_undecided = False
    runner.move(SlotState.COPYING)
    names = ", ".join(map(str, left))
    _log.warning("goes on without %s", names, extra=fields(slot=runner.number))
    taking.tell(runner, [*steps, runner.clock.monotonic()])
    return sender


async def _has_segments(runner: SlotRunner) -> bool:
    """Whether the slot's segments end no lower than we have committed."""
    at = runner.control_partition(ControlKind.SEGMENTS)
    with suppress(MirrorfleetError):
        _, end = await log_bounds(runner.target, at)
        return end >= runner.doubts.control_ends.get(at, 0)
    return False


def _is_as_committed(runner: SlotRunner) -> bool:
    """Whether all that goes on has the position that we committed last, a moment ago.

    Then none is lost, if no commit is without an answer; and the map, whole as it is, need not be
    asked, which takes four round trips.
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
