"""What operators ask of this worker: read from the commands topic, answered by events.

A request is kept until its end; which slot answers it, and whether, is found between transactions.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.control_following import TopicTail
from mirrorfleet.records import commands
from mirrorfleet.records.commands import LONGEST_MS, Action, Command
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.slots.worker import Worker

_POLL_S: Final = 10.0
_AGAIN_S: Final = 5.0

_log = logger(__name__)


class Requests:
    """The open requests, the latest of each partition."""

    def __init__(self) -> None:
        self._open: dict[PartitionIdentity, Command] = {}
        self._ends_ms: dict[str, int] = {}
        self._answered: set[str] = set()

    def take(self, command: Command, came_ms: int) -> None:
        """One came in; a later one about the same partition is what counts.

        To read it again does not make its life longer.
        """
        if command.action is not Action.BEGIN_ANEW:
            self._ends_ms.setdefault(command.id, commands.ends_ms(command, came_ms))
            self._open[command.identity] = command

    def open_for(self, identity: PartitionIdentity, now_ms: int) -> Command | None:
        """What is asked for a partition now."""
        command = self._open.get(identity)
        if command is None:
            return None
        if command.id in self._answered or self._ends_ms[command.id] <= now_ms:
            del self._open[identity]
            return None
        return command

    def answered(self, request: str) -> None:
        """It is being done, or refused: nothing is left to do about it."""
        if request:
            self._answered.add(request)


def refuse(worker: Worker, command: Command, why: str) -> None:
    """Answer no."""
    worker.requests.answered(command.id)
    worker.events.append(
        Event(
            kind=EventKind.REQUEST_REFUSED,
            time_ms=worker.clock.now_ms(),
            writer=worker.owner,
            detail=why,
            cause=command.action,
            link=command.link,
            topic=command.topic,
            partition=command.identity.partition,
            first=command.first,
            end=command.end,
            request=command.id,
        )
    )


async def follow(worker: Worker) -> None:
    """Read requests as they come; runs until cancelled."""
    topic = control_topic(worker.fleet, ControlKind.COMMANDS)
    while True:
        since_ms = worker.clock.now_ms() - LONGEST_MS
        tail = TopicTail(worker.target, topic, worker.clock, since_ms=since_ms)
        try:
            while True:
                for record in await tail.poll(deadline_s=_POLL_S):
                    command = commands.decode(record.value)
                    if isinstance(command, Command):
                        worker.requests.take(command, tail.came_ms(record))
                    else:
                        _log.warning(
                            "a request is not understood", extra=fields(error=command.reason)
                        )
        except MirrorfleetError as error:
            _log.info("requests cannot be read", extra=fields(topic=topic, error=str(error)))
        finally:
            tail.close()
        await asyncio.sleep(_AGAIN_S)
