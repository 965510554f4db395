"""The spare id of a slot, taken while nothing needs it.

    copying with the main id ─> the spare one is taken beside, and again before it is forgotten
    a partition takes no marker ─> brokers are connected to ─> the first commit of the spare id

To take an id costs a dozen round trips of a target that is in trouble, and all neighbours of the
partition stand meanwhile. Whoever takes it after us makes our first commit with it fail: then, or
if we could not take it beforehand, it is taken when it is needed.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.together import both_of
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import endings
from mirrorfleet.slots.fencing import CONNECT_S, fence_settled
from mirrorfleet.slots.outgoing import Pipes

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.kafka.transactions import Transactions
    from mirrorfleet.slots.runner import SlotRunner

AFTER_S: Final = 5.0
"""At least: where slots were taken a moment ago the brokers have other things to do. It is up to
three times as long, or all slots of a worker would ask in one second."""
LOOK_S: Final = 30.0
"""Between two looks whether it is to be taken."""
TAKE_S: Final = 5.0
"""For the coordinator to give it: we may be put out of the group while it does not."""

_log = logger(__name__)


class Ready(NamedTuple):
    """The id, taken, and connections to the brokers that it writes to."""

    transactions: Transactions
    producer: ProducerIdentity
    pipes: Pipes


class Spare:
    """The spare id of one slot, as long as its owner copies with the main one."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._taken: tuple[Transactions, ProducerIdentity] | None = None
        self._taken_at = -inf
        self._pipes: Pipes | None = None
        self.alone = asyncio.Lock()
        """Held by who takes the id: of two takers one would be fenced, and give up the slot."""

    @property
    def is_taken(self) -> bool:
        """Whether the slot can go on with it at once."""
        return self._taken is not None

    async def keep(self) -> None:
        """Have it taken; until cancelled, or at once over where the slot is copied with it: whoever
        took it then would fence itself.
        """
        wait_s, told = AFTER_S, ""
        while not self._runner.wedges.left_behind:
            await asyncio.sleep(wait_s * self._runner.dice.uniform(1, 3))
            wait_s = LOOK_S
            try:
                await self._take_if_due()
                told = ""
            except MirrorfleetError as error:
                if told != (told := str(error)):
                    text = fields(slot=self._runner.number, error=told)
                    _log.info("the spare id is not taken yet", extra=text)

    async def _take_if_due(self) -> None:
        """Who overslept may not: the next owner may be copying with it."""
        runner = self._runner
        old = runner.clock.monotonic() - self._taken_at > runner.settings.keep_alive_s
        if runner.formats.quarantine is None or (self.is_taken and not old):
            return
        async with self.alone:
            self.drop()
            transactions = endings.transactions_of(runner, runner.wedges.spare_id)
            producer = await fence_settled(runner, transactions, only_member_s=TAKE_S)
            transactions.close()  # its connection; brokers end idle ones anyway
            self._taken, self._taken_at = (transactions, producer), runner.clock.monotonic()

    async def reach(self) -> None:
        """Connect to all that it takes, while others find out whether it is needed."""
        if self._taken is None or self.alone.locked():
            return
        runner, (transactions, _) = self._runner, self._taken
        pipes = self._pipes = self._pipes or Pipes(runner, runner.wedges.spare_id)
        try:
            await both_of(pipes.made_ahead(), transactions.connect(CONNECT_S))
        except MirrorfleetError as error:
            text = fields(slot=runner.number, error=str(error))
            _log.info("not connected ahead", extra=text)
        finally:
            if self._pipes is not pipes:  # it was dropped meanwhile, and taken anew
                pipes.close()
                transactions.close()

    def rest(self) -> None:
        """It was not needed: end the connections."""
        if self._pipes is not None:
            self._pipes.close()
            self._pipes = None
        if self._taken is not None:
            self._taken[0].close()

    def handed_over(self) -> Ready | None:
        """The id, for its one use; None where it is not taken."""
        taken, self._taken = self._taken, None
        pipes, self._pipes = self._pipes, None
        if taken is None:
            return None
        pipes = pipes or Pipes(self._runner)
        pipes.put_in_use()
        return Ready(*taken, pipes)

    def drop(self) -> None:
        """Forget it: the slot may be another's, or the id was taken anew."""
        self.rest()
        self._taken = None
