"""What workers ask of `sync`: another incarnation of a partition whose history is another one now.

A request names the incarnation that stands still, so one that was met, or comes twice, is about
nothing any more. Requests are read again after a restart, back to the longest that one lives; one
that came while nobody looked lives from when the broker had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
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

_DEADLINE_S: Final = 10.0
_WAIT_MS: Final = 1
_HIDDEN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)

_log = logger(__name__)


class AnewRequests:
    """The open requests of a fleet."""

    def __init__(self, target: Cluster, fleet: FleetName, clock: Clock) -> None:
        self._target = target
        self._topic = control_topic(fleet, ControlKind.COMMANDS)
        self._clock = clock
        self._tail: TopicTail | None = None
        self._open: dict[PartitionIdentity, tuple[Command, int]] = {}
        """With when each ends."""

    def close(self) -> None:
        """Close the connections."""
        if self._tail is not None:
            self._tail.close()

    async def open(self) -> dict[PartitionIdentity, Command]:
        """What is asked now. Raises: MirrorfleetError: the target does not answer."""
        now_ms = self._clock.now_ms()
        if self._tail is None:
            since_ms = now_ms - LONGEST_MS
            self._tail = TopicTail(self._target, self._topic, self._clock, since_ms=since_ms)
        try:
            while not self._tail.caught_up or await self._more():
                await self._more()
        except BrokerError as error:
            if error.code not in _HIDDEN:
                raise
            _log.warning("requests cannot be read", extra=fields(error=str(error)))
        self._open = {i: one for i, one in self._open.items() if one[1] > now_ms}
        return {identity: command for identity, (command, _) in self._open.items()}

    async def _more(self) -> int:
        if self._tail is None:
            return 0
        found = await self._tail.poll(deadline_s=_DEADLINE_S, max_wait_ms=_WAIT_MS)
        for record in found:
            command = commands.decode(record.value)
            if isinstance(command, Command) and command.action is Action.BEGIN_ANEW:
                ends_ms = commands.ends_ms(command, self._tail.came_ms(record))
                self._open[command.identity] = command, ends_ms
        return len(found)
