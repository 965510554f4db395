"""How a worker tells: each slot's progress, events and requests, each written on its own.

What takes no write is waited for up to a deadline, and then the next time again. Meanwhile all else
is told as ever: readers take a slot for silent that they hear nothing of for `overview.STALE_MS`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.records import progress as progress_codec
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.log import fields, logger
from services.mirror import reporting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.worker import Worker

REPORT_S: Final = 5.0
"""For a report: what is not written by then is old, and the next one is still in time for readers,
who take an owner for silent after `overview.STALE_MS`."""
RECOVERED_S: Final = 2.0
"""Tried again and not refused for so long, a partition has recovered, even without records."""

_log = logger(__name__)


class Teller:
    """Writes in tasks of `tasks`, at most one for each thing that is told."""

    def __init__(
        self, worker: Worker, tasks: asyncio.TaskGroup, *, deadline_s: float = REPORT_S
    ) -> None:
        self._worker, self._tasks = worker, tasks
        # with connections of their own: a broker takes up what comes on one in turn, and may have
        # to wait for followers in between
        self._progress, self._events, self._requests = (
            ControlWriter(worker.target, deadline_s=deadline_s) for _ in range(3)
        )
        self._writing: dict[str, asyncio.Task[None]] = {}

    def tell(self, runners: Iterable[SlotRunner]) -> None:
        """Begin to write how these stand, and what waits, but for what is still being written; what
        cannot be written is logged.
        """
        untaken: list[SlotRunner] = []
        for runner in runners:
            if runner.untaken.since is None:
                self._tell_of(runner)
            else:
                untaken.append(runner)
        if untaken:
            self._begin("untaken", partial(self._tell_of_untaken, untaken))
        worker = self._worker
        self._begin("events", partial(_logged, "events", worker.tell, self._events))
        self._begin("requests", partial(_logged, "requests", worker.ask, self._requests))

    def _begin(self, what: str, write: Callable[[], Coroutine[object, object, None]]) -> None:
        if (before := self._writing.get(what)) is None or before.done():
            self._writing[what] = self._tasks.create_task(write(), name=f"tell:{what}")

    def _tell_of(self, runner: SlotRunner) -> None:
        if not runner.is_lost:
            self._begin(str(runner.number), partial(self._report, runner))

    async def _tell_of_untaken(self, runners: Iterable[SlotRunner]) -> None:
        """A slot that we do not copy may be another's by now: who is cut off from the group's
        coordinator is not told, and its word would stand against the owner's.
        """
        if await self._worker.confirm():
            for runner in runners:
                self._tell_of(runner)

    async def _report(self, runner: SlotRunner) -> None:
        """A partition of the topic that takes no write silences its own slot alone."""
        worker = self._worker
        now_ms, now = worker.clock.now_ms(), worker.clock.monotonic()
        at = TopicPartition(control_topic(worker.fleet, ControlKind.PROGRESS), runner.number)
        snapshot = reporting.snapshot(runner, now_ms, now)
        try:
            await self._progress.write(at, [progress_codec.encode(snapshot)], now_ms)
        except MirrorfleetError as error:
            _log.warning("progress cannot be written", extra=fields(error=str(error)))
        for partition in runner.slot.partitions.values():
            if now - partition.fault_since > RECOVERED_S:
                worker.recovered(runner.link, partition)


async def last_told(worker: Worker, tell: Callable[[Teller], None], within_s: float) -> None:
    """The last report, in time: an earlier one may be at what it waits for longer than we have."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s), asyncio.TaskGroup() as tasks:
            tell(Teller(worker, tasks, deadline_s=within_s / 2))


async def _logged(
    what: str, write: Callable[[ControlWriter], Awaitable[None]], writer: ControlWriter
) -> None:
    try:
        await write(writer)
    except MirrorfleetError as error:
        _log.warning("%s cannot be written", what, extra=fields(error=str(error)))
