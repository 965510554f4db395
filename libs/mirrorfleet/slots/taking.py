"""Taking a slot: fence, commit a barrier, read up to it, check, and only then copy.

Reading the positions "to the end" could start from an old high watermark of a new leader; the
barrier, committed with acks=all by the fencing producer itself, is proof that everything before
it is final and seen.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.errors import AuthenticationError, MirrorfleetError
from mirrorfleet.core.ids import PartitionIdentity
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.kafka.together import both_of, both_or_neither, helped
from mirrorfleet.kafka.transactions import Transactions
from mirrorfleet.records.positions import Barrier, Fence, Healed, Position
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import (
    endings,
    healing,
    leaving,
    ledger,
    rebuilding,
    starting,
    succession,
    target_loss,
)
from mirrorfleet.slots.entries import barrier_entry
from mirrorfleet.slots.fencing import CONNECT_S, fence_settled
from mirrorfleet.slots.outgoing import Pipes
from mirrorfleet.slots.recalling import Hint, recall
from mirrorfleet.slots.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from mirrorfleet.copying.recall import Recall
    from mirrorfleet.records import positions as codec
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

PREPARED_FOR_S: Final = 30.0
"""A slot that is handed to us comes within seconds, or it went to another worker."""
_HELD: Final = frozenset({SlotState.FENCING, SlotState.READING, SlotState.COPYING})

_log = logger(__name__)


class Prepared(NamedTuple):
    """What can be done before a slot is ours: connections, and where its positions end about."""

    transactions: Transactions
    hint: Hint
    at: float
    """When that was: what was committed since is read whole (monotonic seconds)."""


class StoppedError(MirrorfleetError):
    """Raised when an operator fenced the slot: it waits until that is lifted."""

    retriable = True


IMPORTED_S: Final = 10.0
"""While positions are lost an owner commits so often: who has put them back has taken its id."""
LOST_AGAIN_S: Final = 600.0
"""And so often the whole slot is taken again, for they may be made from the map by now."""


class _SpareOpenError(MirrorfleetError):
    """Raised when the slot's spare id has something open in its positions."""

    retriable = True


class PositionsGoneError(MirrorfleetError):
    """Raised when the slot must be taken again to know its positions."""

    retriable = True


async def take(runner: SlotRunner) -> Sender:
    """Become the one owner of the slot and know its positions.

    Raises:
        FencedError: another owner was faster.
        StoppedError: an operator fenced the slot.
        MirrorfleetError: anything else; the slot is not taken and may be tried again.
    """
    if runner.slot.fence is not None:
        await _await_lifting(runner)
    runner.move(SlotState.FENCING)
    runner.slot.forget_all()
    main = runner.wedges.main_id
    transactions, hint = _prepared(runner) or (endings.transactions_of(runner, main), None)
    made = transactions, Pipes(runner)
    return await connected(made, _taken(runner, *made, hint))


async def connected(
    made: tuple[Transactions, Pipes], work: Coroutine[object, object, Sender]
) -> Sender:
    """Take a slot with these, which brokers are connected to meanwhile; they end if it fails."""
    transactions, pipes = made
    try:
        return await helped(work, pipes.made_ahead())
    except BaseException:
        transactions.close()
        pipes.close()
        raise


async def fenced(runner: SlotRunner, transactions: Transactions, pipes: Pipes) -> Sender:
    """Who sends with an id of the slot, taken as by `fence_settled`."""
    producer = await fence_settled(runner, transactions)
    runner.doubts.reached_anew(pipes.drop_closed())  # made ahead, and nothing was sent there
    return Sender(runner, transactions, producer, pipes)


async def _taken(
    runner: SlotRunner, transactions: Transactions, pipes: Pipes, hint: Hint | None
) -> Sender:
    steps = [runner.clock.monotonic()]
    sender = await fenced(runner, transactions, pipes)
    steps.append(runner.clock.monotonic())
    producer, now_ms = sender.producer, runner.clock.now_ms()
    barrier = Barrier(owner=runner.owner, producer=producer, time_ms=now_ms)
    found, barrier = await _recalled(runner, sender, barrier, hint)
    runner.slot.known, runner.slot.snapshots.barrier = found.positions(), barrier
    steps += [runner.taken_at, runner.clock.monotonic()]
    await rebuilding.rebuild(runner, sender)
    await admit_known(runner, sender)
    runner.wedges.is_owner, runner.wedges.is_undecided = True, False
    runner.move(SlotState.COPYING)
    tell(runner, [*steps, runner.clock.monotonic()])
    return sender


async def commit_and_recall(
    runner: SlotRunner,
    sender: Sender,
    records: Sequence[codec.Entry],
    beside: Callable[[], Coroutine[object, object, object]],
    hint: Hint | None = None,
) -> Recall:
    """Commit records, and read up to the last of them meanwhile: what stands before it is final,
    whenever it was read. `beside` is done with the commit.

    Raises: as `take`, and as `beside`.
    """
    entry = barrier_entry(runner, *records)

    async def commit() -> None:
        await both_of(sender.commit_control([entry]), beside())
        begin_reading(runner)

    reading = recall(runner.target, entry.at, records[-1], hint)
    _, found = await both_or_neither(commit(), reading)
    return found


def begin_reading(runner: SlotRunner) -> None:
    """The barrier is committed: what is before it is the truth from now on."""
    runner.move(SlotState.READING)
    topic = runner.control_partition(ControlKind.POSITIONS).topic
    runner.positions_id = runner.targets.topic_id(topic)
    runner.taken_at = runner.clock.monotonic()


async def admit_known(runner: SlotRunner, sender: Sender) -> None:
    """Admit what has a position, and stop where the target lost what it had.

    What is new is looked at beside the copying (`Scout`): a source that has no leader of it, or one
    that lags, keeps no neighbour waiting.
    """
    may_start = [e for e in runner.entries.values() if healing.may_start(runner, e.identity)]
    known = [e for e in may_start if e.identity in runner.slot.known]
    await admit(runner, sender, known, starting.NOTHING_NEW)
    if len(known) < len(may_start):
        runner.look_at_entries()
    await succession.recall_ends(runner)
    with suppress(AuthenticationError):  # of one broker: the first append there tells as well
        await target_loss.check_ends(runner, list(runner.slot.partitions.values()))


async def _recalled(
    runner: SlotRunner, sender: Sender, barrier: Barrier, hint: Hint | None
) -> tuple[Recall, Barrier]:
    """What was committed with either id of the slot before we took it, and up to which barrier.

    What the spare id has open in the positions would keep us from ever reading up to a barrier.
    """

    async def look() -> None:
        if await endings.is_open(runner, await runner.doubts.learn()):
            raise _SpareOpenError("the spare id has something open in the positions")

    found: Recall | None = None
    with suppress(_SpareOpenError):
        found = await commit_and_recall(runner, sender, [barrier], look, hint)
        heed(runner, found.fence())
    while found is None or found.quarantine() is not None:  # the slot was copied with its spare id
        await _fence_spare(runner)
        now_ms = max(runner.clock.now_ms(), barrier.time_ms + 1)  # another one than that before
        barrier = Barrier(owner=runner.owner, producer=sender.producer, time_ms=now_ms)
        records: list[codec.Entry] = [Healed(), barrier]
        found = await commit_and_recall(runner, sender, records, runner.doubts.learn)
        heed(runner, found.fence())
    return found, barrier


async def _fence_spare(runner: SlotRunner) -> None:
    runner.spare.drop()
    spare = endings.transactions_of(runner, runner.wedges.spare_id)
    await fence_settled(runner, spare)
    spare.close()


def _prepared(runner: SlotRunner) -> tuple[Transactions, Hint] | None:
    """What is ready for this take, and new enough."""
    found, runner.prepared = runner.prepared, None
    if found is None:
        return None
    if runner.clock.monotonic() - found.at > PREPARED_FOR_S:
        found.transactions.close()
        return None
    return found.transactions, found.hint


async def prepare(runner: SlotRunner) -> None:
    """Do beforehand what needs no ownership, while the slot is still another worker's.

    Raises: as `take`; nothing is lost then but time.
    """
    if (before := _prepared(runner)) is not None:
        before[0].close()  # it was given to us before and taken back again
    transactions = endings.transactions_of(runner, runner.wedges.main_id)
    try:
        await transactions.connect(CONNECT_S)
        bounds = await log_bounds(runner.target, runner.control_partition(ControlKind.POSITIONS))
        if runner.state not in _HELD:  # else it was taken meanwhile, without us
            runner.prepared = Prepared(transactions, bounds, runner.clock.monotonic())
    finally:
        if runner.prepared is None or runner.prepared.transactions is not transactions:
            transactions.close()


async def _await_lifting(runner: SlotRunner) -> None:
    """Look whether the fence still stands, without fencing anybody for it."""
    at = runner.control_partition(ControlKind.POSITIONS)
    heed(runner, (await recall(runner.target, at, None)).fence())


def heed(runner: SlotRunner, fence: Fence | None) -> None:
    """Raises: StoppedError when an operator's fence was found."""
    runner.slot.fence = fence
    if fence is not None:
        raise StoppedError(
            f"slot {runner.number} was fenced by {fence.who}: {fence.reason}.",
            hint=f"`mirrorfleet fence '{runner.link}' --lift` lets it copy again.",
        )


def tell(runner: SlotRunner, steps: list[float]) -> None:
    """Where the time of a take-over went: each step is a wait of the slot's partitions."""
    words = ("fenced", "barrier", "read", "checked")
    took = (
        f"{word} {(b - a) * 1000:.0f} ms"
        for word, (a, b) in zip(words, pairwise(steps), strict=True)
    )
    _log.info("slot taken: %s", ", ".join(took), extra=fields(slot=runner.number))


def rest_s(runner: SlotRunner) -> float:
    """After how long without a commit an owner sees whether it is one."""
    is_lacking = any(map(healing.is_lost, runner.unstarted.values()))
    return IMPORTED_S if is_lacking else runner.settings.keep_alive_s


def check_positions(runner: SlotRunner) -> None:
    """See whether what was read is still the truth; cheap enough for every other second.

    Raises: PositionsGoneError: the topic is another one, or lost positions may be back.
    """
    now = runner.targets.topic_id(runner.control_partition(ControlKind.POSITIONS).topic)
    if now is not None and now != runner.positions_id:
        raise PositionsGoneError("the positions topic was deleted and made again")
    waits = runner.clock.monotonic() - runner.taken_at
    if waits > LOST_AGAIN_S and any(map(healing.is_lost, runner.unstarted.values())):
        raise PositionsGoneError("lost positions are looked for again")


async def follow_entries(runner: SlotRunner, sender: Sender) -> None:
    """Do what the catalog says now: leave partitions, begin others, change terms."""
    slot, entries = runner.slot, runner.entries
    await leaving.tell_of_ended(runner, sender)
    for identity in [i for i in slot.partitions if i not in entries]:
        # nothing is written there any more: its leader, gone for good maybe, need not answer
        runner.doubts.answered([slot.partitions[identity].target])
        slot.dismiss(identity)
    for identity in [i for i in runner.unstarted if i not in entries]:
        del runner.unstarted[identity]
    new = []
    for identity, entry in entries.items():
        if identity not in slot.partitions:
            new += [entry] if healing.may_start(runner, identity) else []
        elif slot.partitions[identity].entry != entry:
            slot.renew(entry)
    found = runner.scout.found(new)
    if found is not None:
        await admit(runner, sender, found.entries, found.starts)


async def admit(
    runner: SlotRunner,
    sender: Sender,
    entries: Sequence[CatalogPartition],
    starts: starting.Starts,
) -> None:
    """Begin to copy partitions; a first position is stored before the first fetch.

    `starts` are those of partitions without a position. With whose first position the ledger is to
    be told something, it waits for the ledger; others do not.
    """
    known = runner.slot.known
    entries = rebuilding.without_lost(runner, await succession.not_followed(runner, entries))
    now_ms = runner.clock.now_ms()
    begun = [
        entry
        for entry in entries
        if entry.identity in starts.found
        and entry.identity not in known
        and (entry.loss is None or ledger.is_open(runner))
    ]
    fresh = [_first_position(runner, entry.identity, starts, now_ms) for entry in begun]
    if fresh:
        told = await succession.told(runner, begun)
        await sender.commit_control(ledger.control_entries(runner, fresh, None, told))
    known.update({position.identity: position for position in fresh})
    unsure = await succession.look_twice(runner, entries)
    for entry in entries:
        position = known.get(entry.identity)
        if position is None:
            healing.wait_for_start(runner, entry, starts.refused.get(entry.identity))
            continue
        partition = runner.slot.admit(entry, position)
        runner.doubts.doubt(partition.target)
        partition.reported = runner.unstarted.pop(entry.identity, partition).reported
        partition.progress_at = partition.progress_at or runner.clock.monotonic()
        await succession.check_identity(runner, partition, unsure)


def _first_position(
    runner: SlotRunner, identity: PartitionIdentity, starts: starting.Starts, now_ms: int
) -> Position:
    written = succession.written_to(runner, identity, starts.target_ends.get(identity))
    return start_position(identity, starts.found[identity], now_ms, written)
