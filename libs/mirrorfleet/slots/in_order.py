"""Far away: what came of the pieces goes into the slot, each partition's in its order.

When the piece in turn comes, all that waits behind it is in turn as well. That may be seconds of
work where it must be encoded anew, so between two parts others have a turn. Only whoever began
goes on with a partition then, also with what comes meanwhile: the others fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.partition import Pace
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots.arrivals import deliver
from mirrorfleet.slots.waits import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirrorfleet.copying.budget import Weight
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.stripes import Part, Stripes
    from mirrorfleet.slots.runner import SlotRunner

_log = logger(__name__)


class InOrder:
    """Delivers the parts of the pieces of one lane."""

    def __init__(
        self,
        runner: SlotRunner,
        stripes: Stripes,
        weight: Weight,
        is_kept: Callable[[CopyPartition], bool],
    ) -> None:
        """`is_kept` says whether the pieces of a partition are of use still."""
        self._runner, self._stripes, self._weight = runner, stripes, weight
        self._is_kept = is_kept
        self._in_work: set[CopyPartition] = set()

    async def deliver(self, partition: CopyPartition) -> None:
        """Put into the slot what is in turn, unless another task does that already."""
        if partition in self._in_work:
            return
        self._in_work.add(partition)
        try:
            turn = Turn(self._runner.clock)
            while (part := self._stripes.in_turn(partition)) is not None:
                self._put(partition, part)
                if turn.is_over:
                    self._runner.wake()
                    await turn.passed_on()
                    self._stripes.keep(self._is_kept)
        finally:
            self._in_work.remove(partition)

    def _put(self, partition: CopyPartition, part: Part) -> None:
        answer = Answer(part.start, part.end, partition.source, part.aborted, part.epoch)
        deliver(self._runner, partition, part.buffer, answer, part.lease)
        self._weight.weighed(part.end - part.start, part.lease.took)
        part.lease.settled()
        part.lease.done()
        if partition.fault is not None or partition.pace is not Pace.CATCH_UP:
            self._stripes.drop(partition)
            _log.debug("striping ends", extra=fields(offset=partition.walked_to))
