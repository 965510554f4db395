"""What workers ask of `sync`: another incarnation of a partition whose history is another one now.

A request names the incarnation that stands still, so one that was met, or comes twice, is about
nothing any more. Requests are read again after a restart, back to the longest that one lives; one
that came while nobody looked lives from when the broker had it. While their topic has no leader, or
one that is frozen, all else goes on without those of since.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.control_following import TopicTail
from mirrorfleet.records import commands
from mirrorfleet.records.commands import LONGEST_MS, Action, Command
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName, PartitionIdentity
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

BRIEF_S: Final = 2.0
"""No link is planned meanwhile."""
PATIENT_S: Final = 15.0
"""For a person far away: connections, logins and reading take a dozen round trips."""
_AGAIN_S: Final = 5.0
"""Until a topic that was not read in time is read again."""
_WAIT_MS: Final = 1
_HIDDEN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)

_log = logger(__name__)


class AnewRequests:
    """The open requests of a fleet."""

    def __init__(self, target: Cluster, fleet: FleetName, clock: Clock) -> None:
        self._target = target
        self.topic = control_topic(fleet, ControlKind.COMMANDS)
        self._clock = clock
        self._tail: TopicTail | None = None
        self._open: dict[PartitionIdentity, tuple[Command, int]] = {}
        """With when each ends."""
        self._again_at = -math.inf
        self.deadline_s = BRIEF_S
        self.trouble = ""
        """Why what was asked since cannot be read; "" while all is."""

    def close(self) -> None:
        """Close the connections."""
        if self._tail is not None:
            self._tail.close()

    async def open(self) -> dict[PartitionIdentity, Command]:
        """What is asked now, as far as it can be read: see `trouble`.

        Raises: MirrorfleetError that a retry cannot help.
        """
        now_ms = self._clock.now_ms()
        if self._tail is None:
            since_ms = now_ms - LONGEST_MS
            self._tail = TopicTail(self._target, self.topic, self._clock, since_ms=since_ms)
        if self._clock.monotonic() >= self._again_at:
            await self._try(self._tail)
        self._open = {i: one for i, one in self._open.items() if one[1] > now_ms}
        return {identity: command for identity, (command, _) in self._open.items()}

    async def _try(self, tail: TopicTail) -> None:
        """Raises: as `open`."""
        try:
            await self._read(tail)
        except MirrorfleetError as error:
            is_hidden = isinstance(error, BrokerError) and error.code in _HIDDEN
            if not (error.retriable or is_hidden):
                raise
            if not is_hidden:  # a refusal costs no time
                self._again_at = self._clock.monotonic() + _AGAIN_S
            if self.trouble != str(error):
                _log.warning("requests cannot be read", extra=fields(error=str(error)))
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def _read(self, tail: TopicTail) -> None:
        """Read what there is. Raises: DeadlineError: not all in time; as `TopicTail.poll`."""
        try:
            async with asyncio.timeout(self.deadline_s):
                while await self._more(tail) or not tail.caught_up:
                    pass
        except TimeoutError:
            tail.close()  # a fetch that was given up may be answered yet
            text = f"{self.topic}: not read to its end in {self.deadline_s:g} s."
            raise DeadlineError(text) from None

    async def _more(self, tail: TopicTail) -> int:
        found = await tail.poll(deadline_s=self.deadline_s, max_wait_ms=_WAIT_MS)
        for record in found:
            command = commands.decode(record.value)
            if isinstance(command, Command) and command.action is Action.BEGIN_ANEW:
                ends_ms = commands.ends_ms(command, tail.came_ms(record))
                self._open[command.identity] = command, ends_ms
        return len(found)
