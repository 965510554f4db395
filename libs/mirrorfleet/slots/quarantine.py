"""A partition whose markers cannot be written is left behind, and its slot goes on without it.

    main id   ... EndTxn ─> the marker of P cannot be written: 51 for whatever comes next
                               │ looked at twice: P is pending
    spare id                   └──> quarantine record ─> read up to it ─> copy, without P
    main id   nothing pending any more: fence both ids, barrier, read, copy, P too  <──┘

Until the last marker is written nobody can fence the main id, so a slot that changes hands then
waits, whole: it is given to nobody else while its owner is well (`copying/sharing.py`). Only the
owner may take the spare id: one who finds, up to its own quarantine record, that another one took
the slot gives up; one who takes the slot and finds a quarantine record fences the spare id and
reads again. Both records are in one partition, so one of them is the first.

A marker that was appended and is not replicated keeps a broker from confirming the others of its
request, for 30 s (request.timeout.ms): they are pending, too, though they are written. So only what
lacks replicas is blamed, and leaders are asked about the rest.

Where a coordinator forgot a marker (`settling.py`), one id may have left open what the other one
would write behind. So leaders are asked about both: what the spare id left open is ended before the
main id writes there, and a partition in which the main id left something is left behind too.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.core.names import spare_id, transactional_id
from mirrorfleet.kafka.left_open import ENDING, OPEN, open_of
from mirrorfleet.kafka.together import begun, both_of, helped
from mirrorfleet.kafka.transactions import NotAddedError, TransactionVersion
from mirrorfleet.policy.naming import is_own_topic
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import endings, lateness
from mirrorfleet.slots.diverting import leave_new
from mirrorfleet.slots.in_sync import ASK_S, InSync
from mirrorfleet.slots.outgoing import AbortError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Sequence

    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.kafka.inspection import ActiveProducer, TransactionDescription
    from mirrorfleet.kafka.producer import ProduceAck
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

STUCK_S: Final = 0.2
"""A first request is refused for so long, and again as long: it is looked up why."""
FIRST_DEADLINE_S: Final = 10.0
"""A marker that cannot be written for so long means a target partition in trouble."""
REACH_S: Final = 5.0
"""Brokers are connected to meanwhile, as if it went on with the spare id: at most so often, or each
look at a target that is only slow would cost it a login for each slot and broker."""
ADD_LOOK_S: Final = 3.0
"""The same for v1, where an answer that is not waited for costs a new epoch."""
ADD_BUSY_S: Final = 2.0
"""What passes is waited for that long before."""
AGAIN_S: Final = 0.5
"""Between two looks whether the main id can go on again."""
STABLE_S: Final = 2.0
"""Nothing has been pending for so long: the main id is taken again."""
STABLE_MOST_S: Final = 30.0
"""Twice as long each time when it comes back soon: leaving and taking back cost a stall each."""
OFTEN_S: Final = 60.0
"""What is in the way again within this time after the main id was taken again comes back soon."""
_FEW: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})

_log = logger(__name__)


class WedgedError(MirrorfleetError):
    """Raised when the slot's id cannot go on: some markers cannot be written."""

    retriable = True


class HealedError(MirrorfleetError):
    """Raised when they were written, and the slot can be taken whole again."""

    retriable = True


class _Look(NamedTuple):
    """Who cannot get its marker, and who else has none yet."""

    producer: ProducerIdentity
    blamed: frozenset[TopicPartition]
    others: frozenset[TopicPartition]


class _Heard(NamedTuple):
    """Who has what open in control partitions, and what the group's coordinator says, which was
    asked then.
    """

    answers: dict[TopicPartition, list[ActiveProducer]]
    is_member: bool
    asked_at: float


class Wedges:
    """What one slot knows of partitions that keep its main id from going on."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner, self._in_sync = runner, InSync(runner)
        self._looked_at, self._reached_at = 0.0, -inf
        self._is_open = False
        """The transaction that is about to be aborted was seen open: the one before has ended."""
        self._is_healed = False
        self._healed_at, self._stable_s = -inf, STABLE_S
        slot = runner.fleet, runner.link.source, runner.number
        self._suspects: frozenset[TopicPartition] = frozenset()
        self.main_id, self.spare_id = transactional_id(*slot), spare_id(*slot)
        self.left_behind: frozenset[TopicPartition] = frozenset()
        """Partitions of the target without which the slot goes on, with its spare id."""
        self.is_undecided = False
        """Whether something was committed, perhaps, that no position that we remember tells of."""
        self.is_owner = False
        """Whether we took the slot and nobody told us that another one did since."""

    @property
    def id_in_use(self) -> str:
        """The main id, or the spare one while a partition is left behind."""
        return self.spare_id if self.left_behind else self.main_id

    @property
    def other_id(self) -> str:
        """The one that is not in use, and may have left something open."""
        return self.main_id if self.left_behind else self.spare_id

    @property
    def avoided(self) -> frozenset[TopicPartition]:
        """What the spare id does not write to while partitions are left behind: others that have
        too few replicas in sync as well, and would keep it from going on.
        """
        return self._in_sync.short if self.left_behind else frozenset()

    def forget(self) -> None:
        """The slot is another's, or to be taken as if by a new owner."""
        self.left_behind, self.is_owner, self._is_healed = frozenset(), False, False
        self._suspects = frozenset()

    # -- is something pending?

    async def check(self, coordinators: dict[str, int] | None = None) -> None:
        """Find out whether the last transaction of our main id cannot end. `coordinators` are who
        they were just now, as for `describe_transactions`.

        Raises: WedgedError; `left_behind` says because of which partitions.
        """
        known = {} if coordinators is None else coordinators
        if self._may_leave:
            await self._judge(await self._described(known), known)

    async def look_ahead(self, coordinators: dict[str, int]) -> None:
        """Find out who the coordinator is, while the transaction is aborted."""
        await self._described(coordinators)

    @property
    def _may_leave(self) -> bool:
        """Whether the slot could go on without some, as things are."""
        is_able = self._runner.formats.quarantine is not None
        return is_able and self.is_owner and not self.left_behind

    async def _judge(
        self,
        found: TransactionDescription | None,
        coordinators: dict[str, int],
        *,
        beside: bool = True,
    ) -> None:
        """As `check`, from what was found just now, where the second look finds it as well: the
        neighbours stand meanwhile. (A look later on must not: a coordinator that was cut off from
        its cluster would tell the same for ever.) What else must be known is asked `beside` it, or
        only when somebody is blamed: of a target that is slow less is asked.
        """
        if not _pending_in(found):
            return  # it goes on
        looking = self._second_look(found, coordinators)
        if not beside:
            if (look := await looking) is not None:
                await self._leave_if_may(look, self._heard(look.others))
            return
        async with begun(self._heard()) as heard:
            if (look := await looking) is not None:
                await self._leave_if_may(look, heard)

    async def _second_look(
        self, found: TransactionDescription | None, coordinators: dict[str, int]
    ) -> _Look | None:
        """Which of those that are pending still take nothing; None where the target is only slow,
        or there is nowhere to write positions to.
        """
        both, suspects = _pending_in(found), self._suspects
        if both <= suspects:  # of these alone it is known that they take nothing
            sick = await self.sick_of(both)
        else:
            sick, found = await both_of(self.sick_of(both), self._described(coordinators))
            both &= _pending_in(found)
        blamed = both if both <= suspects else sick & both
        if found is None or not blamed or any(is_own_topic(at.topic) for at in blamed):
            return None
        return _Look(found.producer, blamed, both - blamed)

    async def _leave_if_may(self, look: _Look, hearing: Awaitable[_Heard]) -> None:
        try:
            answers, is_member, asked_at = await hearing
            is_open = bool(open_of(answers, look.producer))
            if is_open or look.others - answers.keys():  # by now they may have a marker
                answers = await endings.ask_control(self._runner, look.others, ASK_S)
            if self._runner.clock.monotonic() - asked_at > ASK_S:
                is_member = await self._is_member()
        except MirrorfleetError as error:
            _log.info("cannot be known yet", extra=fields(error=str(error)))
            return
        if not is_member:
            text = "nothing is left behind: the group's coordinator does not call us a member"
            _log.info(text, extra=fields(slot=self._runner.number))
        elif not open_of(answers, look.producer):
            self.leave(look.blamed)  # else nobody could read up to a record of the spare id

    async def _heard(self, others: frozenset[TopicPartition] = frozenset()) -> _Heard:
        """Raises: as `ask_control`."""
        asked_at = self._runner.clock.monotonic() if self._runner.spare.is_taken else -inf
        asking = endings.ask_control(self._runner, others, ASK_S), self._is_member()
        return _Heard(*await both_of(*asking), asked_at)

    async def _is_member(self) -> bool:
        """Who overslept tells of another owner's transaction. An id that is not taken yet is taken
        only after the coordinator of the group was asked, as any.
        """
        return not self._runner.spare.is_taken or await self._runner.confirm()

    async def sick_of(self, suspects: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """As `InSync.sick_of`."""
        return await self._in_sync.sick_of(suspects)

    def leave(self, more: Collection[TopicPartition]) -> NoReturn:
        """Go on without these as well, from the next take on. Raises: WedgedError."""
        if not self.left_behind:
            soon = self._runner.clock.monotonic() - self._healed_at < OFTEN_S
            self._stable_s = min(2 * self._stable_s, STABLE_MOST_S) if soon else STABLE_S
        self.left_behind, self._is_healed = self.left_behind | frozenset(more), False
        self._suspects = frozenset()
        self._runner.setbacks.over()  # what was in the way is known: it is not waited for
        names = ", ".join(sorted(map(str, more)))
        raise WedgedError(f"{self.main_id} has not ended its transaction in {names}")

    async def before_abort(self) -> None:
        """As `check`, unless that was seen just now."""
        is_open, self._is_open = self._is_open, False
        if not is_open:
            await self.check()

    async def after(self, error: AbortError, coordinators: dict[str, int] | None = None) -> None:
        """The transaction was aborted: its own markers may be what cannot be written.

        `coordinators` as for `check`. Raises: WedgedError.
        """
        if error.ack is not None and error.ack.error in _FEW:
            self.suspect([TopicPartition(error.ack.topic, error.ack.partition)])
        if self._suspects:
            await self.check(coordinators)
            self._suspects = frozenset()

    def is_suspect(self, error: AbortError) -> bool:
        """Whether the slot may have to go on with its spare id after this."""
        is_few = error.ack is not None and error.ack.error in _FEW
        return self._may_leave and (is_few or bool(self._suspects))

    def suspect(self, still: Collection[TopicPartition]) -> None:
        """These take nothing: when the transaction was aborted, it is looked into at once."""
        self._suspects |= frozenset(still)

    async def refused(self, acks: Sequence[ProduceAck], waited_s: float) -> None:
        """The first request of a transaction is refused, and has been for so long.

        Raises: WedgedError; AbortError after too long, or when a partition is in the transaction
        and its leader refuses it: NOT_ENOUGH_REPLICAS is also a word of the coordinator, which then
        has not added it.
        """
        if waited_s > FIRST_DEADLINE_S:
            raise AbortError("the first request of a transaction was refused for too long")
        now = self._runner.clock.monotonic()
        if waited_s < STUCK_S or now - self._looked_at < STUCK_S:
            return
        self._looked_at = now
        few = [ack for ack in acks if ack.error is ErrorCode.NOT_ENOUGH_REPLICAS]
        if not self._may_leave or now - self._reached_at < REACH_S:
            await self._look_at(few, beside=False)
            return
        self._reached_at = now
        is_wanted = False
        try:
            await helped(self._look_at(few, beside=True), self._runner.spare.reach())
        except AbortError as error:  # v2 looks again once it is aborted
            is_v2 = self._runner.transaction_version is TransactionVersion.V2
            is_wanted = is_v2 and self.is_suspect(error)
            raise
        finally:
            if not (is_wanted or self.left_behind):
                self._runner.spare.rest()

    async def _look_at(self, few: Sequence[ProduceAck], *, beside: bool) -> None:
        known: dict[str, int] = {}
        found = await self._described(known) if few or self._may_leave else None
        if self._may_leave:
            await self._judge(found, known, beside=beside)
        added = found.partitions if found is not None and found.state == OPEN else ()
        for ack in few:
            at = TopicPartition(ack.topic, ack.partition)
            if at in added:
                self._is_open = True
                raise AbortError(f"{at} has too few replicas in sync", ack=ack)

    async def added(
        self,
        transactions: Transactions,
        producer: ProducerIdentity,
        new: Sequence[TopicPartition],
    ) -> None:
        """v1: tell the coordinator of partitions, and look when it takes long.

        Raises: WedgedError; as `Transactions.add_partitions`. A topic that is not there is no
        reason to wait: it may be deleted, and all others of the slot wait with it.
        """
        try:
            await transactions.add_partitions(
                producer, new, deadline_s=ADD_LOOK_S, busy_s=ADD_BUSY_S
            )
        except NotAddedError:
            raise
        except (BrokerError, DeadlineError) as error:
            if not error.retriable:
                raise
            await self.check()
            await transactions.add_partitions(producer, new)

    async def watch(self, sender: Sender) -> None:
        """Look for partitions that hold up the others; or wait until the main id can go on again.

        Runs until cancelled as long as nothing is left behind.
        """
        runner = self._runner
        if not self.left_behind:
            await lateness.watch(runner, sender)
        since: float | None = None
        while self.left_behind and not self._is_healed:
            await asyncio.sleep(AGAIN_S)
            leave_new(runner)
            runner.targets.go_on_asking()  # there is no third id: who falls short is to be avoided
            now = runner.clock.monotonic()
            found = await self._described()
            since = None if found is None or found.state in ENDING else since or now
            self._is_healed = since is not None and now - since > self._stable_s
        runner.wake()

    def end_if_healed(self) -> None:
        """Call it between transactions. Raises: HealedError: the slot is to be taken whole."""
        if self.left_behind and self._is_healed:
            self.left_behind, self._healed_at = frozenset(), self._runner.clock.monotonic()
            raise HealedError("the last transaction of the main id has ended: all go on")

    async def _described(
        self, coordinators: dict[str, int] | None = None
    ) -> TransactionDescription | None:
        """The main id as its coordinator has it, if that can be known."""
        try:
            return await endings.described(self._runner, self.main_id, ASK_S, coordinators)
        except MirrorfleetError as error:
            text = fields(slot=self._runner.number, error=str(error))
            _log.info("transaction not described", extra=text)
            return None


def _pending_in(found: TransactionDescription | None) -> frozenset[TopicPartition]:
    """Partitions that still lack the marker of the last transaction."""
    return frozenset(found.partitions if found and found.state in ENDING else ())
